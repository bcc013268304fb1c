"""Balanced accuracy: the mean over classes of the proportion of their examples that are classified correctly.

Classes without an example do not count. The interval is robench's percentile bootstrap over examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition
from robench.metrics.contributions import ids_of
from robench.metrics.intervals import BOOTSTRAP, percentile_interval, resample_counts
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from robench.metrics.metric import Readings

BALANCED_ACCURACY = Metric(
    name="balanced_accuracy",
    title="balanced accuracy",
    unit="share",
    task="classification",
    scope="condition",
    interval=BOOTSTRAP,
    implementation="robench_example_plugin.balanced_accuracy:balanced_accuracy",
)


def balanced_accuracy(readings: Readings) -> Estimate:
    """Return the mean recall of the classes, with its bootstrap interval.

    Raises:
        IncompleteError: there are no outcomes.
        ContractError: there is not exactly one condition, or its outcomes are not a classifier's.
    """
    import numpy as np

    outcomes = only_condition(readings)
    ids = ids_of(outcomes, "the condition")
    targets, correct = outcomes.column("target"), outcomes.column("correct_top1")
    is_of_class = (targets[:, None] == np.unique(targets)).astype(np.float64)
    value = mean_recalls(np.ones((1, len(ids))), is_of_class, correct)[0]
    resampled = [mean_recalls(counts, is_of_class, correct) for counts in resample_counts(ids)]
    low, high = percentile_interval(np.concatenate(resampled))
    # With few examples in a class no resample need be as good or as bad as the sample.
    return Estimate(value=float(value), low=min(low, value), high=max(high, value), num_examples=len(ids))


def mean_recalls(counts: NDArray[Any], is_of_class: NDArray[Any], correct: NDArray[Any]) -> NDArray[Any]:
    """Return the mean recall of each resample (R,), given the multiplicities (R, N) of the examples."""
    import numpy as np

    # Sums of whole numbers, which do not round in any order.
    sizes, right = counts @ is_of_class, counts @ (is_of_class * correct[:, None])
    recalls = np.where(sizes > 0, right / np.maximum(sizes, 1), 0.0)
    means: NDArray[Any] = recalls.sum(1) / (sizes > 0).sum(1)
    return means
