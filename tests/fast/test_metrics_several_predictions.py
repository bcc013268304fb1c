"""Mean and worst over several predictions of each input."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import outcome_of, readings
from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics import METRICS
from robench.metrics.intervals import wilson_interval
from robench.tasks.classification import ClassificationOutcome

Rows = list[ClassificationOutcome]


def top1(conditions: list[Rows]) -> Estimate:
    return METRICS["top1_accuracy"].compute(readings(*conditions))


def mean(conditions: list[Rows]) -> Estimate:
    return METRICS["mean_accuracy"].compute(readings(*conditions))


def worst(conditions: list[Rows]) -> Estimate:
    return METRICS["worst_accuracy"].compute(readings(*conditions))


def predicted(*num_correct: int, of: int) -> list[ClassificationOutcome]:
    return [
        outcome_of(str(i), correct=right > 0, num_predictions=of, num_correct=right)
        for i, right in enumerate(num_correct)
    ]


def test_the_mean_is_over_examples_and_predictions() -> None:
    estimate = mean([predicted(5, 4, 0, 1, of=5)])
    assert estimate.value == 10 / 20
    assert estimate.num_examples == 4


def test_the_worst_counts_only_what_every_prediction_is_right_about() -> None:
    outcomes = predicted(5, 4, 0, 5, of=5)
    assert worst([outcomes]).value == 2 / 4
    assert (worst([outcomes]).low, worst([outcomes]).high) == wilson_interval(2, 4)


@given(st.lists(st.booleans(), min_size=1))
def test_of_one_prediction_both_are_top1_accuracy_with_its_interval(verdicts: list[bool]) -> None:
    outcomes = [outcome_of(str(i), correct) for i, correct in enumerate(verdicts)]
    assert mean([outcomes]) == worst([outcomes]) == top1([outcomes])


@given(st.lists(st.booleans(), min_size=1))
def test_where_all_predictions_agree_both_are_top1_accuracy_with_its_interval(verdicts: list[bool]) -> None:
    outcomes = predicted(*(7 * correct for correct in verdicts), of=7)
    wanted = top1([outcomes])
    assert worst([outcomes]) == wanted
    found = mean([outcomes])
    assert found.value == wanted.value
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_of_many_examples_the_interval_is_the_normal_one_of_their_shares() -> None:
    draw = np.random.default_rng(0)
    shares = draw.beta(1, 1, size=20_000)
    counts = draw.binomial(4, shares)
    estimate = mean([predicted(*counts.tolist(), of=4)])
    half = 1.959964 * (counts / 4).std() / sqrt(len(counts))
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=1e-3)
    assert (estimate.high + estimate.low) / 2 == pytest.approx((counts / 4).mean(), abs=1e-4)


def test_dependent_predictions_do_not_narrow_the_interval() -> None:
    agreeing, mixed = predicted(*[0, 10] * 50, of=10), predicted(*[5] * 100, of=10)
    widths = [mean([each]).high - mean([each]).low for each in (agreeing, mixed)]
    once = top1([agreeing])
    assert widths[0] == pytest.approx(once.high - once.low)
    assert widths[1] < widths[0] / 3


def test_different_numbers_of_predictions_have_no_mean() -> None:
    with pytest.raises(IncompleteError, match="examples have 1 to 5 predictions"):
        mean([[*predicted(3, of=5), outcome_of("alone")]])


@pytest.mark.parametrize("metric", [mean, worst])
def test_both_read_one_condition(metric) -> None:
    with pytest.raises(ContractError, match="one condition a column, got 2"):
        metric([predicted(1, of=2), predicted(1, of=2)])
