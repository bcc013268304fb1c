"""Joining shards: every example once, in order, or no number at all."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robench.core.errors import IncompleteError
from robench.core.outcomes import Outcome
from robench.core.records import Provenance, Record, join
from robench.core.shard import DatasetIdentity, ShardHeader

PROVENANCE = Provenance(device="cpu", versions={}, seconds=0.0, finished_at="2026-01-01T00:00:00+00:00")


def record(start: int, stop: int) -> Record:
    header = ShardHeader(
        key=f"{start}-{stop}",
        measurement_key="m",
        perturbation_key="p",
        checkpoint="c",
        condition="clean",
        dataset=DatasetIdentity(name="d", fingerprint="f", num_examples=100),
        weights_digest="0",
        task="classification",
        seed=0,
        batch_size=10,
        start=start,
        stop=stop,
    )
    outcomes = tuple(Outcome(example_id=str(i)) for i in range(start, stop))
    return Record(shard=header, outcomes=outcomes, provenance=PROVENANCE)


@given(bounds=st.lists(st.integers(1, 99), unique=True), order=st.randoms(use_true_random=False))
def test_any_cut_in_any_order_gives_every_example_once(bounds: list[int], order: object) -> None:
    edges = [0, *sorted(bounds), 100]
    parts = [record(a, b) for a, b in pairwise(edges)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    assert [outcome.example_id for outcome in join(parts, 100)] == [str(i) for i in range(100)]


def test_the_first_examples_are_a_prefix() -> None:
    assert [outcome.example_id for outcome in join([record(0, 10), record(10, 20)], 13)] == [str(i) for i in range(13)]


@pytest.mark.parametrize("parts", [[(0, 10), (20, 30)], [(10, 20)], [(0, 10), (5, 15)], [], [(0, 10)]])
def test_gaps_overlaps_and_ends_are_refused(parts: list[tuple[int, int]]) -> None:
    with pytest.raises(IncompleteError):
        join([record(*bounds) for bounds in parts], 30)
