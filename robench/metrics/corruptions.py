"""Corruption errors as metrics of a suite: which reference a family's errors are measured in, and over which types.

A mean is over the fifteen types of ImageNet-C, whatever others a suite has beside them; over the others where it has
none of the fifteen (``mean_corruption_error`` and ``mean_error`` of imagenet-c-extra).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.declarations.imagenet_c import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.metrics.alexnet import ALEXNET
from robench.metrics.bootstrap import INTERVAL
from robench.metrics.corruption_error import (
    corruption_error,
    mean_corruption_error,
    mean_error,
    relative_mean_corruption_error,
)
from robench.metrics.digits_vit import DIGITS_VIT
from robench.metrics.metric import CorruptionMetric

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from robench.core.outcomes import Outcome
    from robench.core.report import Estimate
    from robench.metrics.metric import CorruptedOutcomes
    from robench.metrics.reference_errors import ReferenceErrors

# By family of corruptions.
REFERENCES: Mapping[str, ReferenceErrors] = {
    "imagenet-c": ALEXNET,
    "imagenet-c-live": ALEXNET,
    "digits-c": DIGITS_VIT,
}


def averaged_types(types: Collection[str]) -> tuple[str, ...]:
    """Return the types of corruption that a mean is over, where a suite has some of ``types``.

    >>> len(averaged_types(["snow", "spatter"])), averaged_types(["spatter"])
    (15, ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate'))
    """
    return COMMON_CORRUPTIONS if any(each in COMMON_CORRUPTIONS for each in types) else EXTRA_CORRUPTIONS


def _of_one_type(measured: CorruptedOutcomes) -> Estimate:
    ((corruption, severities),) = measured.corrupted.items()
    return corruption_error(corruption, severities, REFERENCES[measured.family])


def _over_types(measured: CorruptedOutcomes) -> Estimate:
    return mean_corruption_error(_averaged(measured), _reference(measured))


def _relative(measured: CorruptedOutcomes) -> Estimate:
    return relative_mean_corruption_error(measured.clean, _averaged(measured), _reference(measured))


def _unnormalised(measured: CorruptedOutcomes) -> Estimate:
    return mean_error(_averaged(measured))


def _averaged(measured: CorruptedOutcomes) -> Mapping[str, Mapping[int, Sequence[Outcome]]]:
    types = averaged_types(measured.corrupted)
    return {corruption: each for corruption, each in measured.corrupted.items() if corruption in types}


def _reference(measured: CorruptedOutcomes) -> ReferenceErrors:
    return REFERENCES[measured.family].over(averaged_types(measured.corrupted))


CORRUPTION_ERROR = CorruptionMetric(
    name="corruption_error",
    title="corruption error",
    unit="ratio",
    task="classification",
    interval=INTERVAL,
    scope="type",
    compute=_of_one_type,
)
MEAN_CORRUPTION_ERROR = CorruptionMetric(
    name="mean_corruption_error",
    title="mCE",
    unit="ratio",
    task="classification",
    interval=INTERVAL,
    scope="family",
    compute=_over_types,
)
RELATIVE_MEAN_CORRUPTION_ERROR = CorruptionMetric(
    name="relative_mean_corruption_error",
    title="relative mCE",
    unit="ratio",
    task="classification",
    interval=INTERVAL,
    scope="family",
    compute=_relative,
    needs_clean=True,
)
MEAN_ERROR = CorruptionMetric(
    name="mean_error",
    title="mean error",
    unit="share",
    task="classification",
    interval=INTERVAL,
    scope="family",
    compute=_unnormalised,
    needs_reference=False,
)
