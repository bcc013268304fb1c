"""Accuracies by hand, and the laws of robust accuracy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import outcome_columns, outcome_of, readings
from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics import METRICS
from robench.tasks.classification import ClassificationOutcome


def top1(conditions: list[list[ClassificationOutcome]]) -> Estimate:
    return METRICS["top1_accuracy"].compute(readings(*conditions))


def top5(conditions: list[list[ClassificationOutcome]]) -> Estimate:
    return METRICS["top5_accuracy"].compute(readings(*conditions))


def robust(conditions: list[list[ClassificationOutcome]]) -> Estimate:
    """Of the clean condition and then the attacks."""
    clean = outcome_columns(conditions[0]) if conditions else None
    return METRICS["robust_accuracy"].compute(readings(*conditions[1:], clean=clean))


VERDICTS = st.integers(1, 30).flatmap(
    lambda size: st.lists(st.lists(st.booleans(), min_size=size, max_size=size), min_size=1, max_size=4)
)


def outcomes(verdicts: list[bool]) -> list[ClassificationOutcome]:
    return [outcome_of(f"digits/{index}", verdict) for index, verdict in enumerate(verdicts)]


class TestAccuracy:
    def test_top1_is_the_share_of_true_classes_that_came_first(self):
        estimate = top1([outcomes([True, False, True, True])])
        assert (estimate.value, estimate.num_examples, estimate.unit) == (0.75, 4, "share")

    def test_top5_reads_the_first_five_and_not_the_first(self):
        assert top5([[outcome_of("a", False), outcome_of("b", False, correct_top5=False)]]).value == 0.5

    def test_the_interval_is_wilsons(self):
        # 279 of 600, by binomtest(279, 600).proportion_ci(method="wilson") of scipy 1.17.1.
        estimate = top1([outcomes([True] * 279 + [False] * 321)])
        assert (estimate.low, estimate.high) == pytest.approx((0.4254397267, 0.5050055924), abs=1e-10)

    @pytest.mark.parametrize("compute", [top1, top5])
    @pytest.mark.parametrize("num_conditions", [0, 2])
    def test_it_reads_exactly_one_condition(self, compute, num_conditions):
        with pytest.raises(ContractError, match=f"one condition a column, got {num_conditions}"):
            compute([outcomes([True])] * num_conditions)


class TestRobustAccuracy:
    def test_an_example_counts_when_it_is_right_clean_and_under_every_attack(self):
        clean = outcomes([True, True, True, False, True])
        weak = outcomes([True, True, False, True, True])
        strong = outcomes([True, False, True, True, False])
        # Only example 0 survives everything; example 3 was wrong before any attack.
        estimate = robust([clean, weak, strong])
        assert (estimate.value, estimate.num_examples) == (0.2, 5)

    def test_attacks_are_compared_by_example_and_not_by_their_averages(self):
        half, other_half = outcomes([True, False]), outcomes([False, True])
        assert top1([half]).value == top1([other_half]).value == 0.5
        assert robust([outcomes([True, True]), half, other_half]).value == 0.0

    def test_examples_are_joined_by_id_whatever_their_order(self):
        clean = [outcome_of("a", True), outcome_of("b", False)]
        attacked = [outcome_of("b", True), outcome_of("a", True)]
        assert robust([clean, attacked]).value == 0.5

    @given(VERDICTS)
    def test_without_attacks_it_is_clean_accuracy(self, verdicts: list[list[bool]]):
        assert robust([outcomes(verdicts[0])]) == top1([outcomes(verdicts[0])])

    @pytest.mark.parametrize(
        ("attacked", "stranger"), [(["a"], "b"), (["a", "b", "c"], "c"), (["a", "z"], "b")], ids=str
    )
    def test_different_examples_are_refused_by_name(self, attacked: list[str], stranger: str):
        clean = [outcome_of("a", True), outcome_of("b", True)]
        with pytest.raises(IncompleteError, match=f"first '{stranger}'"):
            robust([clean, [outcome_of(example, True) for example in attacked]])

    def test_no_condition_at_all_is_refused(self):
        with pytest.raises(IncompleteError, match="no outcomes"):
            robust([])
