"""Corruption errors as metrics of a suite, with the reference and the types of each family (``references``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.metrics import corruption_error as errors
from robench.metrics.references import REFERENCES, averaged_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.columns import Outcomes
    from robench.core.report import Estimate
    from robench.metrics.metric import Readings
    from robench.metrics.reference_errors import ReferenceErrors


def corruption_error(readings: Readings) -> Estimate:
    """Return the corruption error of the measured type.

    Raises:
        IncompleteError: a severity or an example is missing.
        ContractError: the outcomes are not a classifier's.
    """
    ((corruption, severities),) = readings.corrupted.items()
    return errors.corruption_error(corruption, severities, REFERENCES[readings.family])


def mean_corruption_error(readings: Readings) -> Estimate:
    """Return the mCE; raises like ``corruption_error``, and for a missing type."""
    return errors.mean_corruption_error(_averaged(readings), _reference(readings))


def relative_mean_corruption_error(readings: Readings) -> Estimate:
    """Return the relative mCE; raises like ``mean_corruption_error``, and for a missing clean condition."""
    if readings.clean is None:
        raise IncompleteError("the relative mCE needs the images without corruption; add {name: clean}")
    return errors.relative_mean_corruption_error(readings.clean, _averaged(readings), _reference(readings))


def mean_error(readings: Readings) -> Estimate:
    """Return the mean error without a reference; raises like ``mean_corruption_error``."""
    return errors.mean_error(_averaged(readings))


def _averaged(readings: Readings) -> Mapping[str, Mapping[int, Outcomes]]:
    types = averaged_types(readings.corrupted)
    return {corruption: each for corruption, each in readings.corrupted.items() if corruption in types}


def _reference(readings: Readings) -> ReferenceErrors:
    return REFERENCES[readings.family].over(averaged_types(readings.corrupted))
