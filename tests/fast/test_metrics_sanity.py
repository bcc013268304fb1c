"""Expectations of attacks: raised where the weaker one wins by more than chance explains, and by that alone."""

import pytest

from robench.core.errors import ContractError
from robench.metrics.sanity import MORE_STEPS, SINGLE_STEP, beaten, right_at_any_distance


@pytest.mark.parametrize(("num_fooled", "is_raised"), [(0, False), (1, False), (7, False), (8, True), (30, True)])
def test_a_difference_is_raised_where_chance_does_not_explain_it(num_fooled: int, is_raised: bool) -> None:
    stronger, weaker = [True] * 40, [False] * num_fooled + [True] * (40 - num_fooled)
    # Eight of eight on one side have p = 2 / 2**8 = 0.0078.
    assert beaten(SINGLE_STEP, stronger, weaker, "a against b").is_raised == is_raised


def test_a_difference_of_a_fifth_of_a_point_or_less_is_never_raised() -> None:
    stronger, weaker = [True] * 5000, [False] * 10 + [True] * 4990
    flag = beaten(SINGLE_STEP, stronger, weaker, "a against b")
    assert (flag.value, flag.is_raised) == (0.002, False)
    assert beaten(SINGLE_STEP, stronger, [False] * 11 + [True] * 4989, "a against b").is_raised


def test_the_expected_order_is_never_raised() -> None:
    assert not beaten(SINGLE_STEP, [False] * 40, [True] * 40, "a against b").is_raised


def test_what_one_fools_and_the_other_does_not_counts_against_itself() -> None:
    stronger = [True] * 20 + [False] * 20
    assert not beaten(MORE_STEPS, stronger, stronger[::-1], "a against b").is_raised


def test_a_flag_tells_both_attacks_the_points_and_the_chance() -> None:
    flag = beaten(MORE_STEPS, [True] * 4, [True, True, True, False], "40 steps against 20")
    assert flag.name == "twice the steps change the result"
    assert flag.finding == "40 steps against 20: 25.0 points fewer survive (p = 1)"
    assert "more steps" in flag.advice


@pytest.mark.parametrize(
    ("weaker", "said"),
    [
        ([True, True, False, False], "as many survive"),
        ([True, True, True, False], "25.0 points more survive"),
        ([True, False, False, False], "25.0 points fewer survive"),
    ],
)
def test_the_difference_has_no_sign_but_a_word(weaker: list[bool], said: str) -> None:
    flag = beaten(MORE_STEPS, [True, True, False, False], weaker, "a against b")
    assert flag.finding.startswith(f"a against b: {said} (p = ")


def test_verdicts_of_other_numbers_of_examples_are_refused() -> None:
    with pytest.raises(ContractError, match="must be of the same examples"):
        beaten(SINGLE_STEP, [True], [True, False], "a against b")


@pytest.mark.parametrize(("num_standing", "is_raised"), [(0, False), (10, False), (11, True)])
def test_more_than_chance_standing_at_any_distance_is_raised(num_standing: int, is_raised: bool) -> None:
    stands = [True] * num_standing + [False] * (100 - num_standing)
    flag = right_at_any_distance(stands, 10, "pgd")
    assert (flag.value, flag.limit, flag.is_raised) == (num_standing / 100, 0.1, is_raised)
