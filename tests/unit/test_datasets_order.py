"""Orders and splits depend on ids alone."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robench.datasets.order import check_range, checked_index, hash_order, largest_remainder, stratified_split

IDS = [f"digits/{index:04d}" for index in range(200)]
SIZES = st.dictionaries(st.integers(0, 9), st.integers(1, 300), min_size=1)


def test_hash_order_depends_on_the_ids_and_not_on_their_order() -> None:
    shuffled = random.Random(3).sample(IDS, len(IDS))
    assert hash_order(shuffled) == hash_order(IDS) != IDS


def test_hash_order_of_fewer_ids_keeps_the_order_of_those() -> None:
    some = set(IDS[::3])
    assert hash_order(some) == [example_id for example_id in hash_order(IDS) if example_id in some]


@given(SIZES, st.data())
def test_largest_remainder_shares_out_in_proportion_by_larger_remainders_then_lower_labels(
    sizes: dict[int, int], data: st.DataObject
) -> None:
    whole = sum(sizes.values())
    total = data.draw(st.integers(0, whole))
    shares = largest_remainder(sizes, total)
    assert sum(shares.values()) == total
    for label, size in sizes.items():
        assert abs(shares[label] - Fraction(size * total, whole)) < 1
        assert 0 <= shares[label] <= size

    def favour(label: int) -> tuple[Fraction, int]:
        return -(Fraction(sizes[label] * total, whole) % 1), label

    raised = [label for label in sizes if shares[label] > sizes[label] * total // whole]
    others = [label for label in sizes if label not in raised]
    assert max(map(favour, raised), default=(Fraction(-1), 0)) < min(map(favour, others), default=(Fraction(1), 0))


def test_a_stratified_split_takes_each_class_in_proportion_and_every_example_once() -> None:
    labels = {example_id: 0 if index % 4 else 1 for index, example_id in enumerate(IDS)}
    train, test = stratified_split(labels, 40)
    assert sorted(train + test) == IDS
    assert [sum(labels[example_id] == label for example_id in test) for label in (0, 1)] == [30, 10]
    assert train == hash_order(train)
    assert test == hash_order(test)


def test_a_stratified_split_takes_the_first_of_each_class_and_a_larger_one_contains_the_smaller() -> None:
    labels = {example_id: index % 2 for index, example_id in enumerate(IDS)}
    _, test = stratified_split(labels, 60)
    assert set(stratified_split(labels, 40)[1]) < set(test)
    for label in (0, 1):
        of_class = hash_order(example_id for example_id in IDS if labels[example_id] == label)
        assert set(of_class[:30]) == {example_id for example_id in test if labels[example_id] == label}


def test_what_is_outside_is_named() -> None:
    with pytest.raises(IndexError, match="digits has examples 0 to 4"):
        checked_index(-6, "digits", 5)
    with pytest.raises(IndexError, match=r"digits has examples \[0, 5\), asked for \[4, 6\)"):
        check_range(4, 6, "digits", 5)


def test_an_index_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(TypeError):
        checked_index(1.5, "digits", 5)  # type: ignore[arg-type]  # the mistake under test
