"""Corruption errors as metrics of a suite: which reference a family's errors are measured in, and over which types.

A mean is over the fifteen types of ImageNet-C, whatever others a suite has beside them; over the others where it has
none of the fifteen (``mean_error`` of imagenet-c-extra).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
    from collections.abc import Mapping, Sequence

    from robench.core.outcomes import Outcome
    from robench.core.report import Estimate
    from robench.metrics.metric import CorruptedOutcomes
    from robench.metrics.reference_errors import ReferenceErrors

# By family of corruptions; the mean's types are those of AlexNet's errors.
REFERENCES: Mapping[str, ReferenceErrors] = {
    "imagenet-c": ALEXNET,
    "imagenet-c-live": ALEXNET,
    "digits-c": DIGITS_VIT,
}
COMMON = tuple(ALEXNET.corrupted)


def _of_one_type(measured: CorruptedOutcomes) -> Estimate:
    ((corruption, severities),) = measured.corrupted.items()
    return corruption_error(corruption, severities, REFERENCES[measured.family])


def _over_types(measured: CorruptedOutcomes) -> Estimate:
    return mean_corruption_error(_averaged(measured), _common(REFERENCES[measured.family]))


def _relative(measured: CorruptedOutcomes) -> Estimate:
    return relative_mean_corruption_error(measured.clean, _averaged(measured), _common(REFERENCES[measured.family]))


def _unnormalised(measured: CorruptedOutcomes) -> Estimate:
    return mean_error(_averaged(measured))


def _averaged(measured: CorruptedOutcomes) -> Mapping[str, Mapping[int, Sequence[Outcome]]]:
    common = {corruption: each for corruption, each in measured.corrupted.items() if corruption in COMMON}
    return common or measured.corrupted


def _common(reference: ReferenceErrors) -> ReferenceErrors:
    return replace(reference, corrupted={each: reference.corrupted[each] for each in COMMON})


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
