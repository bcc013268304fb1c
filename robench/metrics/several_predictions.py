"""Accuracy of models that draw random numbers, over several predictions of each input: the mean and the worst.

Predictions of one example are dependent, so they are not independent trials. The interval of the mean is Wilson's with
the number of examples that independent trials would need for the same variance (Kish 1965, Survey Sampling, section
8.2, the design effect): with per-example proportions m_i of mean m, n m (1 - m) over their variance. That is n if all
predictions of an example agree, as with one prediction, and at most the number of all predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition, proportion, verdicts_of
from robench.metrics.intervals import wilson_interval
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.contributions import Contributions
    from robench.metrics.metric import Readings

MEAN_ACCURACY = Metric(
    name="mean_accuracy",
    title="mean accuracy",
    unit="share",
    task="classification",
    scope="condition",
    reads=("num_predictions", "num_correct"),
    implementation="robench.metrics.several_predictions:mean_accuracy",
    contributions="robench.metrics.several_predictions:mean_contributions",
)
WORST_ACCURACY = Metric(
    name="worst_accuracy",
    title="worst accuracy",
    unit="share",
    task="classification",
    scope="condition",
    reads=("num_predictions", "num_correct"),
    implementation="robench.metrics.several_predictions:worst_accuracy",
    contributions="robench.metrics.several_predictions:worst_contributions",
)


def mean_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of right predictions (top-1) over examples and predictions; for one, top-1 accuracy."""
    made, right = _counts(only_condition(readings))
    if not len(made):
        return proportion(right > 0)
    _check_even(made)
    num_right, num_predictions = int(right.sum()), int(made.sum())
    scale = _effective(int(made[0]), right) / num_predictions
    low, high = wilson_interval(num_right * scale, num_predictions * scale)
    return Estimate(value=num_right / num_predictions, low=low, high=high, num_examples=len(made))


def worst_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of examples for which every prediction is right; interval and errors as in top-1."""
    made, right = _counts(only_condition(readings))
    return proportion(made == right)


def mean_contributions(readings: Readings) -> Contributions:
    """Return the proportion of right predictions of each example, of one prediction whether it is right."""
    outcomes = only_condition(readings)
    made, right = _counts(outcomes)
    if len(made):
        _check_even(made)
    return verdicts_of(outcomes, right > 0 if (made == 1).all() else right / made)


def worst_contributions(readings: Readings) -> Contributions:
    """Return whether every prediction of each example is right."""
    outcomes = only_condition(readings)
    made, right = _counts(outcomes)
    return verdicts_of(outcomes, made == right)


def _check_even(made: NDArray[np.int64]) -> None:
    if made.min() != made.max():
        raise IncompleteError(
            f"examples have {made.min()} to {made.max()} predictions, and a mean wants the same number of each"
        )


def _counts(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    import numpy as np

    made, right = np.ones(len(outcomes), np.int64), outcomes.column("correct_top1").astype(np.int64)
    several = outcomes.known("num_predictions") & outcomes.known("num_correct")
    if several.any():
        counted = outcomes.take(several)
        made[several], right[several] = counted.column("num_predictions"), counted.column("num_correct")
    return made, right


def _effective(made: int, right: NDArray[np.int64]) -> float:
    """Return the effective number of independent trials of these examples of ``made`` predictions each."""
    num_examples, num_right = len(right), int(right.sum())
    most = num_examples * made
    # n times the sum of squares less the square of the sum: exact in whole numbers.
    spread = num_examples * int((right * right).sum()) - num_right * num_right
    if spread == 0:
        return float(num_examples if num_right in (0, most) else most)
    return min(num_examples * num_right * (most - num_right) / spread, float(most))
