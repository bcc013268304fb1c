"""Tiling overlapping shards, and choosing the newest of several measurements, against slow definitions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import HEADER, PROVENANCE, record_of
from robench.core.errors import IncompleteError
from robench.core.records import Record, join
from robench.reports.selection import Coverage, newest, tile

BOUNDS = st.tuples(st.integers(0, 20), st.integers(0, 20)).filter(lambda bounds: bounds[0] < bounds[1])


def record(start: int, stop: int, *, time: str = PROVENANCE.finished_at, device: str = "cpu", key: str = "m") -> Record:
    header = replace(HEADER, start=start, stop=stop, measurement_key=key)
    return record_of(header, provenance=replace(PROVENANCE, finished_at=time, device=device))


def ids(records: tuple[Record, ...]) -> list[str]:
    return [outcome.example_id for each in records for outcome in each.outcomes]


class TestTile:
    @given(st.lists(BOUNDS, max_size=8), st.integers(1, 20))
    def test_every_measured_example_is_there_once_and_in_order(self, shards, num_examples):
        measured = {index for start, stop in shards for index in range(start, stop) if index < num_examples}
        tiles = tile([record(*bounds) for bounds in shards], num_examples)
        found = [example for example in ids(tiles) if int(example.split("-")[1]) < num_examples]
        assert found == [f"digits-{index:05d}" for index in sorted(measured)]
        for each in tiles:
            assert ids((each,)) == [f"digits-{index:05d}" for index in range(each.shard.start, each.shard.stop)]
        coverage = Coverage(condition="clean", num_wanted=num_examples, records=tiles, failures=(), has_older=False)
        assert (coverage.num_in, coverage.missing) == (len(measured), num_examples - len(measured))
        if coverage.missing == 0:
            assert len(join(tiles, num_examples)) == num_examples
        else:
            with pytest.raises(IncompleteError):
                join(tiles, num_examples)

    @given(
        st.lists(st.tuples(BOUNDS, st.sampled_from(["cpu", "cuda"]), st.sampled_from("123")), max_size=8), st.randoms()
    )
    def test_the_order_of_the_records_does_not_matter(self, shards, draw):
        records = [record(*bounds, device=device, time=time) for bounds, device, time in shards]
        assert tile(draw.sample(records, len(records)), 20) == tile(records, 20)

    def test_a_record_that_adds_nothing_is_not_used(self):
        assert tile([record(0, 4), record(2, 3), record(0, 2)], 20) == (record(0, 4),)

    def test_a_record_beyond_the_examples_wanted_is_not_used(self):
        assert tile([record(0, 4), record(4, 8)], 4) == (record(0, 4),)


class TestNewest:
    def test_nothing_has_no_newest(self):
        assert newest([], lambda shard: shard.measurement_key) == ()

    def test_all_of_the_identity_that_finished_last_stay(self):
        old, new, newer = (
            record(0, 2, time="1", key="a"),
            record(0, 2, time="2", key="b"),
            record(2, 4, time="3", key="b"),
        )
        assert newest([new, old, newer], lambda shard: shard.measurement_key) == (new, newer)

    def test_an_identity_is_as_new_as_its_last_result(self):
        first, between, last = (record(0, 2, time=time, key=key) for time, key in ["1a", "2b", "3a"])
        assert newest([first, between, last], lambda shard: shard.measurement_key) == (first, last)

    def test_equal_times_are_decided_the_same_way_in_any_order(self):
        one, two = record(0, 2, key="a"), record(0, 2, key="b")
        assert newest([one, two], lambda shard: shard.measurement_key) == (two,)
        assert newest([two, one], lambda shard: shard.measurement_key) == (two,)


def test_outcomes_of_a_dataset_of_unknown_size_are_refused():
    coverage = Coverage(condition="clean", num_wanted=None, records=(), failures=(), has_older=False)
    with pytest.raises(IncompleteError, match="nothing is measured on the dataset of clean"):
        _ = coverage.outcomes
