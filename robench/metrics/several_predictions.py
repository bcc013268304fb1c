"""Accuracy of victims that draw random numbers: over several predictions of each input, the mean and the worst.

Predictions of one example depend on each other, so that they are no trials of their own. The interval of the mean is
Wilson's with the number of examples that independent trials would need for the same variance (Kish 1965, Survey
Sampling, section 8.2, the design effect): with per-example shares m_i of mean m, n m (1 - m) over their variance. That
is n where all predictions of an example agree, as with one prediction, and never taken as more than all predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition, share_of
from robench.metrics.intervals import wilson_interval
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.outcomes import ClassificationOutcome, Outcome


def mean_accuracy(conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    """Return the share of right predictions (top-1) over examples and predictions; of one, it is top-1 accuracy.

    Raises:
        IncompleteError: there are no outcomes, or examples have different numbers of predictions.
        ContractError: there is not exactly one condition, or its outcomes are not a classifier's.
    """
    counts = [_counts(outcome) for outcome in only_condition(conditions)]
    if not counts:
        return share_of([])
    numbers = sorted({made for made, _ in counts})
    if len(numbers) > 1:
        raise IncompleteError(
            f"examples have {numbers[0]} to {numbers[-1]} predictions, and a mean wants the same number of each"
        )
    num_right, num_examples = sum(right for _, right in counts), len(counts)
    num_predictions = num_examples * numbers[0]
    scale = _effective(counts) / num_predictions
    low, high = wilson_interval(num_right * scale, num_predictions * scale)
    return Estimate(value=num_right / num_predictions, low=low, high=high, num_examples=num_examples)


def worst_accuracy(conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    """Return the share of examples that every prediction is right about, with Wilson's interval; errors as of top-1."""
    return share_of([made == right for made, right in map(_counts, only_condition(conditions))])


def _counts(outcome: ClassificationOutcome) -> tuple[int, int]:
    """Return how many predictions were made, and how many of them are right."""
    if outcome.num_predictions is None or outcome.num_correct is None:
        return 1, int(outcome.correct_top1)
    return outcome.num_predictions, outcome.num_correct


def _effective(counts: Sequence[tuple[int, int]]) -> float:
    """Return how many independent trials say as much as these examples."""
    num_examples, made = len(counts), counts[0][0]
    right, most = sum(right for _, right in counts), num_examples * made
    # n times the sum of squares less the square of the sum: exact in whole numbers.
    spread = num_examples * sum(right * right for _, right in counts) - right * right
    if spread == 0:
        return float(num_examples if right in (0, most) else most)
    return min(num_examples * right * (most - right) / spread, float(most))


MEAN_ACCURACY = Metric(
    name="mean_accuracy",
    title="mean accuracy",
    unit="share",
    task="classification",
    scope="condition",
    compute=mean_accuracy,
)
WORST_ACCURACY = Metric(
    name="worst_accuracy",
    title="worst accuracy",
    unit="share",
    task="classification",
    scope="condition",
    compute=worst_accuracy,
)
