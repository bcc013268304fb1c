"""Top-1 and top-5 accuracy: the proportion of examples whose true class ranks first, or among the first five.

Over all examples of a condition, including those misclassified without any perturbation, so that under an attack the
number is the robust accuracy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics.intervals import wilson_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings


def top1_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of one condition's examples whose true class ranks first, with its Wilson interval.

    Raises:
        IncompleteError: there are no outcomes.
        ContractError: there is not exactly one condition, or its outcomes are not a classifier's.
    """
    return proportion(only_condition(readings).column("correct_top1"))


def top5_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of one condition's examples whose true class ranks among the first five.

    Raises:
        IncompleteError: there are no outcomes.
        ContractError: there is not exactly one condition, or its outcomes are not a classifier's, or lack it.
    """
    outcomes = only_condition(readings)
    if not outcomes.known("correct_top5").all():
        raise ContractError("top-5 accuracy met outcomes of an attack that stops at success, which do not say it")
    return proportion(outcomes.column("correct_top5"))


def proportion(correct: NDArray[np.bool_]) -> Estimate:
    """Return the proportion of true values, in [0, 1], with its Wilson 95 % interval.

    Raises:
        IncompleteError: there are none, and a proportion of nothing is undefined.
    """
    total = len(correct)
    if not total:
        raise IncompleteError("there are no outcomes, and a proportion of none is undefined; measure an example first")
    num_true = int(np.count_nonzero(correct))
    low, high = wilson_interval(num_true, total)
    return Estimate(value=num_true / total, low=low, high=high, num_examples=total)


def only_condition(readings: Readings) -> Outcomes:
    """Return the outcomes of the one condition that a column reads.

    Raises:
        ContractError: there is not exactly one.
    """
    conditions = readings.measured
    if len(conditions) != 1:
        raise ContractError(f"accuracy reads one condition a column, got {len(conditions)}; give each its own column")
    return conditions[0]
