"""Budgets are shown as they were written, and are the same budget however they were."""

import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robench.core.budgets import Spelled, ThreatModel, spelling_of
from robench.core.identity import key_of, to_plain
from robench.declare import parse_suite
from robench.evaluation.actions import Audit


@given(st.integers(-1000, 1000), st.integers(1, 1000))
def test_it_is_the_number_that_was_written_in_all_but_its_spelling(numerator: int, denominator: int) -> None:
    number = Fraction(numerator, denominator)
    spelled = Spelled(f"{numerator}/{denominator}")
    assert spelled == number
    assert hash(spelled) == hash(number)
    assert str(spelled) == str(number)
    assert key_of({"epsilon": spelled}) == key_of({"epsilon": number})
    assert type(spelled + 1) is Fraction
    assert spelling_of(spelled) == f"{numerator}/{denominator}"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_and_workers_keep_it(again: object) -> None:
    assert again(Spelled("6/255")).spelling == "6/255"  # type: ignore[operator]  # each is a function


@pytest.mark.parametrize("text", ["", "eight", "1/0x", "1//2"])
def test_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid literal"):
        Spelled(text)


@pytest.mark.parametrize(
    ("written", "shown", "kept"),
    [("6/255", "6/255", "2/85"), ("10/255", "10/255", "2/51"), (1, "1", "1"), (0.5, "0.5", "1/2")],
)
def test_a_suite_shows_budgets_as_declared_and_keeps_them_reduced(written: object, shown: str, kept: str) -> None:
    fgsm = {"name": "fgsm", "perturbation": {"kind": "fgsm", "norm": "l2", "epsilon": written}}
    suite = parse_suite(
        {
            "name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 100,
            "conditions": [{"name": "clean"}, fgsm], "metrics": ["robust_accuracy"],
        }
    )  # fmt: skip
    (column,) = suite.columns
    assert column.label == f"l2-{shown} robust accuracy"
    condition = suite.conditions[1]
    assert condition.budget == shown
    plain = to_plain(condition.perturbation)
    assert isinstance(plain, dict)
    assert plain["epsilon"] == kept


def test_a_computed_budget_is_shown_in_grey_levels_where_it_is_a_whole_number_of_them() -> None:
    shown = {
        str(ThreatModel(norm="linf", epsilon=epsilon)) for epsilon in (Fraction(2, 51), Fraction(1, 3), Fraction(1, 2))
    }
    assert shown == {"linf-10/255", "linf-85/255", "linf-1/2"}


def test_a_default_that_is_written_out_changes_no_key() -> None:
    assert key_of(Audit(epsilon=Spelled("8/255"))) == key_of(Audit(epsilon=Spelled("16/510"))) == key_of(Audit())
