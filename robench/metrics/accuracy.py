"""Top-1 and top-5 accuracy: the proportion of examples whose true class ranks first, or among the first five.

Over all examples of a condition, including those misclassified without any perturbation, so that under an attack the
number is the robust accuracy. All metrics raise an IncompleteError where there are no outcomes, or they lack what the
metric reads, and a ContractError where they are not of the metric's task or scope (``Metric.compute``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics.contributions import Contributions, Sample, ids_of
from robench.metrics.intervals import wilson_interval
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings

TOP1_ACCURACY = Metric(
    name="top1_accuracy",
    title="top-1 accuracy",
    unit="share",
    task="classification",
    scope="condition",
    reads=(),
    implementation="robench.metrics.accuracy:top1_accuracy",
    contributions="robench.metrics.accuracy:top1_contributions",
)
TOP5_ACCURACY = Metric(
    name="top5_accuracy",
    title="top-5 accuracy",
    unit="share",
    task="classification",
    scope="condition",
    reads_scores=True,
    reads=("correct_top5",),
    implementation="robench.metrics.accuracy:top5_accuracy",
    contributions="robench.metrics.accuracy:top5_contributions",
)


def top1_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of one condition's examples whose true class ranks first, with its Wilson interval."""
    return proportion(only_condition(readings).column("correct_top1"))


def top5_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of one condition's examples whose true class ranks among the first five."""
    return proportion(known_column(only_condition(readings), "correct_top5"))


def top1_contributions(readings: Readings) -> Contributions:
    """Return whether the true class of each example came first."""
    outcomes = only_condition(readings)
    return verdicts_of(outcomes, outcomes.column("correct_top1"))


def top5_contributions(readings: Readings) -> Contributions:
    """Return whether the true class of each example was among the first five."""
    outcomes = only_condition(readings)
    return verdicts_of(outcomes, known_column(outcomes, "correct_top5"))


def verdicts_of(outcomes: Outcomes, verdicts: NDArray[Any]) -> Contributions:
    """Return one value per example of one condition, whose mean is the metric's number."""
    return Contributions((Sample(ids_of(outcomes, "the condition"), verdicts),))


def proportion(correct: NDArray[np.bool_]) -> Estimate:
    """Return the proportion of true values, in [0, 1], with its Wilson 95 % interval; none is an IncompleteError."""
    import numpy as np

    total = len(correct)
    if not total:
        raise IncompleteError("there are no outcomes, and a proportion of none is undefined; measure an example first")
    num_true = int(np.count_nonzero(correct))
    low, high = wilson_interval(num_true, total)
    return Estimate(value=num_true / total, low=low, high=high, num_examples=total)


def known_column(outcomes: Outcomes, name: str) -> NDArray[Any]:
    """Return a field that early stopping, archives or older releases leave out; an IncompleteError where one did."""
    if not outcomes.known(name).all():
        raise IncompleteError(
            f"some outcomes have no {name} (early stopping of an attack, an archive that left it out, or an older"
            " robench); measure them in another folder of results"
        )
    return outcomes.column(name)


def only_condition(readings: Readings) -> Outcomes:
    """Return the outcomes of the one condition that a column reads; others are a ContractError."""
    conditions = readings.measured
    if len(conditions) != 1:
        raise ContractError(
            f"accuracy reads one condition a column, got {len(conditions)}; give them different columns"
        )
    return conditions[0]
