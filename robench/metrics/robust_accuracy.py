"""Robust accuracy: the proportion of examples that survive all attacks of one threat model.

Source: Carlini et al. 2019, "On evaluating adversarial robustness", arXiv:1902.06705: attacks are compared per example,
mean_x min_a f(a(x)) and not min_a mean_x f(a(x)). The clean input is one of the attacker's choices, so an example
misclassified when clean counts as wrong regardless of the attacks. The denominator is all examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.errors import IncompleteError
from robench.metrics.accuracy import proportion
from robench.metrics.contributions import Contributions, Sample, aligned, ids_of
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robench.core.report import Estimate
    from robench.metrics.metric import Readings

ROBUST_ACCURACY = Metric(
    name="robust_accuracy",
    title="robust accuracy",
    unit="share",
    task="classification",
    scope="threat-model",
    reads=(),
    implementation="robench.metrics.robust_accuracy:robust_accuracy",
    contributions="robench.metrics.robust_accuracy:robust_contributions",
)


def robust_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of all examples that are right (top-1) clean and under every attack, joined by id.

    Without attacks this is the clean accuracy.
    """
    _, survives = _surviving(readings)
    return proportion(survives)


def robust_contributions(readings: Readings) -> Contributions:
    """Return whether each example is right clean and under every attack."""
    return Contributions((Sample(*_surviving(readings)),))


def _surviving(readings: Readings) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    import numpy as np

    attacks = [
        (f"attack {number} of {len(readings.measured)}", each) for number, each in enumerate(readings.measured, 1)
    ]
    conditions = [*([] if readings.clean is None else [("the clean condition", readings.clean)]), *attacks]
    if not conditions:
        raise IncompleteError("there are no outcomes; measure an example first")
    ids = ids_of(conditions[0][1], conditions[0][0])
    verdicts = [aligned(ids, outcomes, where).column("correct_top1") for where, outcomes in conditions]
    return ids, np.logical_and.reduce(verdicts)
