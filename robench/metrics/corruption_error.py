"""Corruption errors: a classifier's error under common corruptions of five severities, relative to a reference.

Source: Hendrycks and Dietterich 2019, "Benchmarking neural network robustness to common corruptions and perturbations",
arXiv:1903.12261, section 4.1. With E(c, s) the top-1 error under corruption c at severity s, and A(c, s) a reference's,

    corruption error            CE(c) = sum_s E(c, s) / sum_s A(c, s)
    relative corruption error  rCE(c) = sum_s (E(c, s) - E(clean)) / sum_s (A(c, s) - A(clean))
    mCE, relative mCE                 = the means of CE and of rCE over the corruptions

The paper's formula of the relative error leaves open whether the clean error is subtracted once or at each severity;
here at each, so that a model unaffected by corruptions has 0. Papers print 100 times these numbers. The mean error
without a reference is what the authors' code calls unnormalised mCE.

Every number is a mean over per-image contributions, so that one bootstrap of images serves all: an image is drawn with
all its corruptions and severities, and with its clean version. The reference's errors are units, not estimates: an
interval describes the variation on other images for fixed errors of the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from robench.core.errors import IncompleteError, UnknownNameError
from robench.core.report import Estimate
from robench.metrics.bootstrap import percentile_interval, resampled_sums
from robench.metrics.joining import aligned, ids_of
from robench.metrics.reference_errors import ReferenceErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from robench.core.columns import Outcomes

    Severities = Mapping[int, Outcomes]
    Corrupted = Mapping[str, Severities]
    Verdicts = Callable[[Outcomes], NDArray[np.bool_]]

SEVERITIES = (1, 2, 3, 4, 5)


def corruption_error(corruption: str, severities: Severities, reference: ReferenceErrors) -> Estimate:
    """Return one type's error over the reference's, in units of ``ratio``; 1 is as bad as the reference.

    Args:
        corruption: the type, such as ``gaussian_noise``.
        severities: the outcomes at each of the severities 1 to 5, of the same examples.
        reference: errors that serve as units.

    Raises:
        IncompleteError: a severity or an example is missing.
        ContractError: the outcomes are not a classifier's.
        UnknownNameError: the reference has no error for the type.
    """
    _check_known([corruption], reference)
    return _mean(_tally({corruption: severities}, _wrong), reference.corrupted)


def mean_corruption_error(corrupted: Corrupted, reference: ReferenceErrors) -> Estimate:
    """Return the mCE over all types of the reference, in units of ``ratio``.

    Args:
        corrupted: by type and severity (1 to 5), outcomes of the same examples everywhere.
        reference: errors that serve as units; ``ALEXNET.over(COMMON_CORRUPTIONS)`` has the fifteen of ImageNet-C.

    Raises:
        IncompleteError: a type, a severity or an example is missing.
        ContractError: the outcomes are not a classifier's.
        UnknownNameError: the reference has no error for a type.
    """
    _check_types(corrupted, reference)
    return _mean(_tally(corrupted, _wrong), reference.corrupted)


def relative_mean_corruption_error(clean: Outcomes, corrupted: Corrupted, reference: ReferenceErrors) -> Estimate:
    """Return the relative mCE: the increase of the error under corruptions, relative to the reference's increase.

    Negative if corruptions help. Arguments and errors as in ``mean_corruption_error``; ``clean`` has the same examples.

    Raises:
        DeclarationError: a corruption does not raise the reference's error.
    """
    _check_types(corrupted, reference)
    tallies = _tally(corrupted, _wrong)
    wrong = _wrong(aligned(tallies.ids, clean, "the clean condition"))
    added = {corruption: counts - len(SEVERITIES) * wrong for corruption, counts in tallies.counts.items()}
    return _mean(_Tallies(tallies.ids, added), reference.degradations)


def mean_error(corrupted: Corrupted) -> Estimate:
    """Return the mean top-1 error over types and severities, a proportion; errors as in ``mean_corruption_error``."""
    return _mean(_tally(corrupted, _wrong), dict.fromkeys(corrupted, 1.0), unit="share")


def mean_top1_accuracy(corrupted: Corrupted) -> Estimate:
    """Return the mean top-1 accuracy over types and severities, a share; errors as ``mean_corruption_error``'s."""
    return _mean(_tally(corrupted, _right), dict.fromkeys(corrupted, 1.0), unit="share")


def mean_top5_accuracy(corrupted: Corrupted) -> Estimate:
    """Return the mean top-5 accuracy over types and severities, a share; errors as ``mean_corruption_error``'s."""
    return _mean(_tally(corrupted, _among_five), dict.fromkeys(corrupted, 1.0), unit="share")


def errors_of(model: str, clean: Outcomes, corrupted: Corrupted) -> ReferenceErrors:
    """Return a measured model's errors as units for others; arguments and errors as above.

    Raises:
        DeclarationError: it makes no errors under a corruption.
    """
    num_wrong, num_images = int(_wrong(clean).sum()), len(ids_of(clean, "the clean condition"))
    means = {
        corruption: int(counts.sum()) / (len(SEVERITIES) * len(counts))
        for corruption, counts in _tally(corrupted, _wrong).counts.items()
    }
    return ReferenceErrors(model=model, clean=num_wrong / num_images, corrupted=means)


@dataclass(frozen=True, slots=True)
class _Tallies:
    """Number of severities at which a verdict holds, by type of corruption, for the images of ``ids``."""

    ids: NDArray[Any]
    counts: Mapping[str, NDArray[np.int64]]


def _wrong(outcomes: Outcomes) -> NDArray[np.bool_]:
    return ~outcomes.column("correct_top1")


def _right(outcomes: Outcomes) -> NDArray[np.bool_]:
    return outcomes.column("correct_top1")


def _among_five(outcomes: Outcomes) -> NDArray[np.bool_]:
    return outcomes.column("correct_top5")


def _check_known(corruptions: Iterable[str], reference: ReferenceErrors) -> None:
    for corruption in corruptions:
        if corruption not in reference.corrupted:
            advice = f"Without {reference.model}'s error a corruption has no corruption error; show its mean error."
            raise UnknownNameError("corruption", corruption, reference.corrupted, advice)


def _check_types(corrupted: Corrupted, reference: ReferenceErrors) -> None:
    _check_known(corrupted, reference)
    if missing := [corruption for corruption in reference.corrupted if corruption not in corrupted]:
        raise IncompleteError(
            f"{len(corrupted)} of {len(reference.corrupted)} corruptions are in, without {', '.join(missing)}; "
            "the mean wants every one, measure them or show single corruption errors"
        )


def _tally(corrupted: Corrupted, verdicts: Verdicts) -> _Tallies:
    """Count, by type and image, the severities at which the verdict holds; the images must be the same everywhere."""
    counts: dict[str, NDArray[np.int64]] = {}
    ids: NDArray[Any] | None = None
    for corruption, severities in corrupted.items():
        if tuple(sorted(severities)) != SEVERITIES:
            raise IncompleteError(f"{corruption} wants the severities 1 to 5, got {sorted(severities)}; measure them")
        for severity, outcomes in severities.items():
            where = f"{corruption} at severity {severity}"
            ids = ids_of(outcomes, where) if ids is None else ids
            holds = verdicts(aligned(ids, outcomes, where)).astype(np.int64)
            counts[corruption] = counts[corruption] + holds if corruption in counts else holds
    if ids is None:
        raise IncompleteError("there are no corruptions to take a mean over; name their conditions")
    return _Tallies(ids, counts)


def _mean(tallies: _Tallies, units: Mapping[str, float], unit: str = "ratio") -> Estimate:
    """Return the mean over types of a tally's proportion of images and severities, each in its own unit."""
    num_images = len(tallies.ids)
    num_terms = len(tallies.counts) * len(SEVERITIES) * num_images
    by_image = np.zeros(num_images)
    # Floating-point sums depend on their order, which must not be the order of the conditions.
    for corruption, counts in sorted(tallies.counts.items()):
        by_image += counts / units[corruption]
    value = fsum(int(counts.sum()) / units[corruption] for corruption, counts in tallies.counts.items()) / num_terms
    low, high = percentile_interval(resampled_sums(tallies.ids, by_image) / num_terms)
    # If no two images differ, rounding alone would put the value slightly outside its bounds.
    return Estimate(value=value, low=min(low, value), high=max(high, value), num_examples=num_images, unit=unit)
