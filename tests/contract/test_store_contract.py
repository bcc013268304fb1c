"""What every store promises, whatever it keeps results in."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from examples import PROVENANCE, everything, failure_of, header_of, outcomes_of, record_of
from robench.core.errors import RobenchError
from robench.core.flags import Flag, Observations
from robench.core.protocols import Store
from robench.core.records import Failure, Record
from robench.core.shard import ShardHeader
from robench.store import FolderStore, MemoryStore

STORES: dict[str, Callable[[Path], Store]] = {
    "folder": lambda folder: FolderStore(folder / "results"),
    "memory": lambda folder: MemoryStore(),
}


def header(measurement: str = "a", start: int = 0, stop: int = 2) -> ShardHeader:
    return header_of(measurement, start, stop, batch_size=2)


def record(shard: ShardHeader | None = None, *, num_queries: int = 1, device: str = "cpu") -> Record:
    shard = shard or header()
    return record_of(shard, outcomes_of(shard, num_queries=num_queries), dataclasses.replace(PROVENANCE, device=device))


def failure(shard: ShardHeader | None = None, error: str = "out of memory") -> Failure:
    return failure_of(shard or header(), error)


@pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
class TestEveryStore:
    @pytest.fixture
    def store(self, make: Callable[[Path], Store], tmp_path: Path) -> Store:
        return make(tmp_path)

    def test_a_new_store_holds_nothing(self, store: Store) -> None:
        assert store.keys() == set()
        assert everything(store) == []
        assert list(store.failures()) == []

    def test_a_record_comes_back_as_it_was_put(self, store: Store) -> None:
        store.put(record())
        assert everything(store) == [record()]
        assert store.keys() == {header().key}

    def test_flags_come_back_as_they_were_put(self, store: Store) -> None:
        flag = Flag(name="n", source="s", value=None, limit=0.1, is_raised=True, finding="f \u2013 \ud800", advice="a")
        seen = Observations(check="n", columns=((True, False), (0.1 + 0.2, 3), ("", "\ud800")), settings=(10, "w"))
        flags = flag, dataclasses.replace(flag, value=0.1 + 0.2)
        flagged = dataclasses.replace(
            record_of(), flags=flags, observations=(seen, Observations(check="m", columns=()))
        )
        store.put(flagged)
        assert everything(store) == [flagged]

    def test_a_failure_comes_back_as_it_was_put_and_its_shard_is_still_to_be_measured(self, store: Store) -> None:
        store.put(failure())
        assert list(store.failures()) == [failure()]
        assert store.keys() == set()
        assert everything(store) == []

    @pytest.mark.parametrize("starts", [(0, 2, 100), (100, 2, 0), (2, 100, 0)])
    def test_records_of_a_measurement_come_by_start_in_whatever_order_they_were_put(
        self, store: Store, starts: tuple[int, ...]
    ) -> None:
        for start in starts:
            store.put(record(header(start=start, stop=start + 2)))
        assert [kept.shard.start for kept in everything(store)] == [0, 2, 100]

    def test_of_overlapping_shards_the_one_that_starts_first_comes_first(self, store: Store) -> None:
        store.put(record(header(start=4, stop=6)))
        store.put(record(header(start=0, stop=10)))
        assert [kept.shard.start for kept in everything(store)] == [0, 4]

    def test_shards_that_start_alike_come_by_stop(self, store: Store) -> None:
        store.put(record(header(stop=10)))
        store.put(record(header(stop=4)))
        assert [kept.shard.stop for kept in everything(store)] == [4, 10]

    def test_measurements_come_by_key_and_are_not_mixed(self, store: Store) -> None:
        for measurement, start in (("b", 0), ("a", 2), ("b", 2), ("a", 0)):
            store.put(record(header(measurement, start, start + 2)))
        found = [(kept.shard.measurement_key, kept.shard.start) for kept in everything(store)]
        assert found == [("a", 0), ("a", 2), ("b", 0), ("b", 2)]

    def test_select_is_asked_once_a_measurement_with_one_of_its_shards(self, store: Store) -> None:
        for measurement in ("a", "b"):
            for start in (0, 2, 4):
                store.put(record(header(measurement, start, start + 2)))
        asked: list[ShardHeader] = []

        def only_b(shard: ShardHeader) -> bool:
            asked.append(shard)
            return shard.measurement_key == "b"

        assert {kept.shard.measurement_key for kept in store.records(only_b)} == {"b"}
        assert [shard.measurement_key for shard in asked] == ["a", "b"]
        assert {shard.start for shard in asked} <= {0, 2, 4}

    def test_the_same_outcomes_again_change_nothing_and_say_nothing(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.put(record(device="cpu"))
        store.put(record(device="NVIDIA H200"))
        assert everything(store) == [record(device="cpu")]
        assert caplog.records == []

    def test_other_outcomes_are_told_with_both_devices_and_the_first_stay(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.put(record(num_queries=1, device="cpu"))
        store.put(record(num_queries=2, device="NVIDIA H200"))
        assert everything(store) == [record(num_queries=1, device="cpu")]
        (warning,) = caplog.records
        assert (warning.name, warning.levelno) == ("robench.store", logging.WARNING)
        for told in (header().title, "cpu", "NVIDIA H200", "2 of 2", "not reproducible", "first stays"):
            assert told in warning.getMessage()

    def test_a_record_takes_the_place_of_its_shards_failure_alone(self, store: Store) -> None:
        store.put(failure(header(start=0, stop=2)))
        store.put(failure(header(start=2, stop=4)))
        store.put(record(header(start=0, stop=2)))
        assert [kept.shard.start for kept in store.failures()] == [2]
        assert store.keys() == {header().key}

    def test_a_failure_does_not_take_the_place_of_a_record(self, store: Store) -> None:
        store.put(record())
        store.put(failure())
        assert list(store.failures()) == []
        assert everything(store) == [record()]

    def test_a_record_that_comes_a_second_time_clears_the_failure_too(self, store: Store) -> None:
        store.put(failure())
        store.put(record())
        store.put(record())
        assert list(store.failures()) == []

    def test_the_latest_failure_of_a_shard_stays(self, store: Store) -> None:
        store.put(failure(error="first"))
        store.put(failure(error="second"))
        assert [kept.error for kept in store.failures()] == ["second"]

    def test_failures_come_by_key_across_measurements(self, store: Store) -> None:
        for measurement, start in (("c", 0), ("a", 2), ("b", 0), ("a", 0)):
            store.put(failure(header(measurement, start, start + 2)))
        keys = [kept.shard.key for kept in store.failures()]
        assert keys == sorted(keys)
        assert len(keys) == 4

    def test_results_that_come_while_records_are_read_disturb_nothing(self, store: Store) -> None:
        for start in (0, 2):
            store.put(record(header("a", start, start + 2)))
        read = []
        for kept in store.records(lambda shard: shard.measurement_key == "a"):
            read.append(kept.shard.start)
            store.put(record(header("b", kept.shard.start, kept.shard.stop)))
        assert read == [0, 2]
        assert len(store.keys()) == 4

    def test_a_refused_result_is_an_error_of_robench_and_loses_nothing(self, store: Store) -> None:
        store.put(record())
        strange = dataclasses.replace(header(start=2, stop=4), task="telepathy")
        with pytest.raises(RobenchError, match="telepathy"):
            store.put(record(strange))
        assert everything(store) == [record()]
