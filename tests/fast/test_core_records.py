"""Joining shards: every example once, in order, or no number at all."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import HEADER, record_of
from robench.core.errors import IncompleteError
from robench.core.outcomes import Outcome
from robench.core.records import Record, join

IDS = [f"digits-{index:05d}" for index in range(100)]


def record(start: int, stop: int) -> Record:
    return record_of(replace(HEADER, start=start, stop=stop))


def ids(outcomes: tuple[Outcome, ...]) -> list[str]:
    return [outcome.example_id for outcome in outcomes]


@given(bounds=st.lists(st.integers(1, 99), unique=True), order=st.randoms(use_true_random=False))
def test_any_cut_in_any_order_gives_every_example_once(bounds: list[int], order: object) -> None:
    edges = [0, *sorted(bounds), 100]
    parts = [record(a, b) for a, b in pairwise(edges)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    assert ids(join(parts, 100)) == IDS


def test_the_first_examples_are_a_prefix() -> None:
    assert ids(join([record(0, 10), record(10, 20)], 13)) == IDS[:13]


@pytest.mark.parametrize("parts", [[(0, 10), (20, 30)], [(10, 20)], [(0, 10), (5, 15)], [], [(0, 10)]])
def test_gaps_overlaps_and_ends_are_refused(parts: list[tuple[int, int]]) -> None:
    with pytest.raises(IncompleteError):
        join([record(*bounds) for bounds in parts], 30)
