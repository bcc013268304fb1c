"""Certified accuracy: the proportion of examples whose class is proven not to change within an l2 distance.

Source: Cohen et al. 2019, arXiv:1902.02918. The radii are those of ``metrics.certified_radii``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import ContractError, InapplicableError
from robench.metrics.accuracy import only_condition, proportion, verdicts_of
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robench.core.report import Estimate
    from robench.metrics.contributions import Contributions
    from robench.metrics.metric import Readings

CERTIFIED_ACCURACY = Metric(
    name="certified_accuracy",
    title="certified accuracy",
    unit="share",
    task="classification",
    scope="radius",
    reads=("certified_radius", "abstained"),
    implementation="robench.metrics.certificates:certified_accuracy",
    contributions="robench.metrics.certificates:certified_contributions",
)


def certified_accuracy(readings: Readings) -> Estimate:
    """Return the proportion of all examples that are right and certified up to the column's radius, with its interval.

    The interval is about the examples; that a certificate may be wrong, with the model's alpha, is not part of it.
    """
    return proportion(_certified(readings))


def certified_contributions(readings: Readings) -> Contributions:
    """Return whether each example is right and certified up to the radius."""
    return verdicts_of(only_condition(readings), _certified(readings))


def _certified(readings: Readings) -> NDArray[np.bool_]:
    outcomes = only_condition(readings)
    if readings.within is None:
        raise ContractError("certified accuracy wants a radius to be stated; give the condition distances")
    if not outcomes.known("abstained").all():
        raise InapplicableError("the model is not smoothed, so that nothing is certified")
    found: NDArray[np.bool_] = outcomes.column("correct_top1") & (
        outcomes.filled("certified_radius", 0.0) >= readings.within
    )
    return found
