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
from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Any

from robench.core.errors import IncompleteError, UnknownNameError
from robench.core.report import Estimate
from robench.metrics.contributions import Contributions, Sample, aligned, ids_of
from robench.metrics.intervals import BOOTSTRAP, percentile_interval, resampled_sums
from robench.metrics.metric import Metric
from robench.metrics.reference_errors import REFERENCES, ReferenceErrors, averaged_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings, Scope

    Severities = Mapping[int, Outcomes]
    Corrupted = Mapping[str, Severities]
    Verdicts = Callable[[Outcomes], NDArray[np.bool_]]

SEVERITIES = (1, 2, 3, 4, 5)


def _metric(
    name: str,
    title: str,
    scope: Scope,
    computed_by: str = "",
    *,
    unit: str = "share",
    reads: tuple[str, ...] = (),
    needs_clean: bool = False,
    lower_is_better: bool = False,
) -> Metric:
    path = f"robench.metrics.corruptions:{computed_by or name}"
    return Metric(
        name=name,
        title=title,
        unit=unit,
        task="classification",
        interval=BOOTSTRAP,
        scope=scope,
        needs_clean=needs_clean,
        # The unit of a ratio is a reference's error.
        needs_reference=unit == "ratio",
        reads_scores=bool(reads),
        reads=reads,
        implementation=path,
        contributions=f"{path}_contributions",
        lower_is_better=lower_is_better,
    )


CORRUPTION_METRICS = (
    _metric("corruption_error", "corruption error", "type", unit="ratio", lower_is_better=True),
    _metric("mean_corruption_error", "mCE", "family", unit="ratio", lower_is_better=True),
    _metric(
        *("relative_mean_corruption_error", "relative mCE", "family"),
        unit="ratio",
        needs_clean=True,
        lower_is_better=True,
    ),
    _metric("mean_error", "mean error", "family", lower_is_better=True),
    _metric("corruption_top1_accuracy", "top-1 accuracy", "type", "mean_top1_accuracy"),
    _metric("corruption_top5_accuracy", "top-5 accuracy", "type", "mean_top5_accuracy", reads=("correct_top5",)),
    _metric("mean_top1_accuracy", "mean top-1 accuracy", "family"),
    _metric("mean_top5_accuracy", "mean top-5 accuracy", "family", reads=("correct_top5",)),
)


def _of_type(readings: Readings) -> Terms:
    ((corruption, severities),) = readings.corrupted.items()
    return type_terms(corruption, severities, REFERENCES[readings.family])


def _of_family(readings: Readings) -> Terms:
    return mean_terms(_averaged(readings), _reference(readings))


def _relative(readings: Readings) -> Terms:
    if readings.clean is None:
        raise IncompleteError("the relative mCE needs the images without corruption; add {name: clean}")
    return relative_terms(readings.clean, _averaged(readings), _reference(readings))


def _mean_of(verdicts: Verdicts, readings: Readings) -> Terms:
    return verdict_terms(_averaged(readings), verdicts)


def _averaged(readings: Readings) -> Corrupted:
    types = averaged_types(readings.corrupted)
    return {corruption: each for corruption, each in readings.corrupted.items() if corruption in types}


def _reference(readings: Readings) -> ReferenceErrors:
    return REFERENCES[readings.family].over(averaged_types(readings.corrupted))


@dataclass(frozen=True, slots=True)
class Terms:
    """Number of severities at which a verdict holds, by type of corruption and image, and the units they are added in.

    Attributes:
        counts: counts (N,) of severities, by type.
        units: what a type's proportion is divided by.
    """

    ids: NDArray[Any]
    counts: Mapping[str, NDArray[np.int64]]
    units: Mapping[str, float]

    @property
    def num_terms(self) -> int:
        """Number of types, severities and images that a mean is over."""
        return len(self.counts) * len(SEVERITIES) * len(self.ids)

    @property
    def by_image(self) -> NDArray[np.float64]:
        """Sum of the terms of each image (N,)."""
        import numpy as np

        added = np.zeros(len(self.ids))
        # Floating-point sums depend on their order, which must not be that in which conditions are named.
        for corruption, counts in sorted(self.counts.items()):
            added += counts / self.units[corruption]
        return added

    @property
    def contributions(self) -> Contributions:
        """Contribution of each image; the number is their mean."""
        return Contributions((Sample(self.ids, self.by_image * len(self.ids) / self.num_terms),))

    def estimate(self, unit: str = "ratio") -> Estimate:
        """Return the mean over types of the proportion of images and severities, each type's in its units."""
        num_terms = self.num_terms
        totals = (int(counts.sum()) / self.units[corruption] for corruption, counts in self.counts.items())
        value = fsum(totals) / num_terms
        low, high = percentile_interval(resampled_sums(self.ids, self.by_image) / num_terms)
        # Where no two images differ, rounding alone would leave the value a little outside of its bounds.
        return Estimate(value=value, low=min(low, value), high=max(high, value), num_examples=len(self.ids), unit=unit)


def type_terms(corruption: str, severities: Severities, reference: ReferenceErrors) -> Terms:
    """Count the terms of one type's error over the reference's; 1 is as bad as the reference.

    ``severities`` has the outcomes at each of the severities 1 to 5, of the same examples.

    Raises:
        IncompleteError: a type, a severity or an example is missing.
        ContractError: the outcomes are not a classifier's.
        UnknownNameError: the reference has no error for a type.
    """
    _check_known([corruption], reference)
    return Terms(*_tally({corruption: severities}, wrong), reference.corrupted)


def mean_terms(corrupted: Corrupted, reference: ReferenceErrors) -> Terms:
    """Count the terms of the mCE over all types of the reference, such as ``ALEXNET.over(COMMON_CORRUPTIONS)``.

    ``corrupted`` has outcomes by type and severity, of the same examples everywhere; raises like ``type_terms``.
    """
    _check_types(corrupted, reference)
    return Terms(*_tally(corrupted, wrong), reference.corrupted)


def relative_terms(clean: Outcomes, corrupted: Corrupted, reference: ReferenceErrors) -> Terms:
    """Count the terms of the relative mCE: the increase of the error under corruptions over the reference's increase.

    Negative if corruptions help. ``clean`` has the same examples; raises like ``mean_terms``, and a DeclarationError
    where a corruption does not raise the reference's error.
    """
    _check_types(corrupted, reference)
    ids, tallies = _tally(corrupted, wrong)
    wrong_clean = wrong(aligned(ids, clean, "the clean condition"))
    added = {corruption: counts - len(SEVERITIES) * wrong_clean for corruption, counts in tallies.items()}
    return Terms(ids, added, reference.degradations)


def verdict_terms(corrupted: Corrupted, verdicts: Verdicts) -> Terms:
    """Count the terms of a verdict's mean over types and severities, a proportion; errors as in ``mean_terms``."""
    return Terms(*_tally(corrupted, verdicts), dict.fromkeys(corrupted, 1.0))


def errors_of(model: str, clean: Outcomes, corrupted: Corrupted) -> ReferenceErrors:
    """Return a measured model's errors as units for others; none under a corruption is a DeclarationError."""
    num_wrong, num_images = int(wrong(clean).sum()), len(ids_of(clean, "the clean condition"))
    means = {
        corruption: int(counts.sum()) / (len(SEVERITIES) * len(counts))
        for corruption, counts in _tally(corrupted, wrong)[1].items()
    }
    return ReferenceErrors(model=model, clean=num_wrong / num_images, corrupted=means)


def wrong(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Return whether another class than the true one ranks first."""
    return ~outcomes.column("correct_top1")


def right(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Return whether the true class ranks first."""
    return outcomes.column("correct_top1")


def among_five(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Return whether the true class is among the first five."""
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


def _tally(corrupted: Corrupted, verdicts: Verdicts) -> tuple[NDArray[Any], dict[str, NDArray[np.int64]]]:
    """Count, by type and image, the severities at which the verdict holds; the images must be the same everywhere."""
    counts: dict[str, NDArray[np.int64]] = {}
    ids: NDArray[Any] | None = None
    for corruption, severities in corrupted.items():
        if tuple(sorted(severities)) != SEVERITIES:
            raise IncompleteError(f"{corruption} wants the severities 1 to 5, got {sorted(severities)}; measure them")
        for severity, outcomes in severities.items():
            where = f"{corruption} at severity {severity}"
            ids = ids_of(outcomes, where) if ids is None else ids
            holds = verdicts(aligned(ids, outcomes, where)).astype("int64")
            counts[corruption] = counts[corruption] + holds if corruption in counts else holds
    if ids is None:
        raise IncompleteError("there are no corruptions to take a mean over; name their conditions")
    return ids, counts


def _functions(
    terms_of: Callable[[Readings], Terms], unit: str
) -> tuple[Callable[[Readings], Estimate], Callable[[Readings], Contributions]]:
    """Return the function of a metric's number, and that of the contributions of images to it.

    Both raise an IncompleteError where a condition, a type, a severity or an example is missing, and a ContractError
    where outcomes are not a classifier's.
    """
    return (lambda readings: terms_of(readings).estimate(unit)), (lambda readings: terms_of(readings).contributions)


corruption_error, corruption_error_contributions = _functions(_of_type, "ratio")
mean_corruption_error, mean_corruption_error_contributions = _functions(_of_family, "ratio")
relative_mean_corruption_error, relative_mean_corruption_error_contributions = _functions(_relative, "ratio")
# Means over severities of one type, or over the types of a family too.
mean_error, mean_error_contributions = _functions(partial(_mean_of, wrong), "share")
mean_top1_accuracy, mean_top1_accuracy_contributions = _functions(partial(_mean_of, right), "share")
mean_top5_accuracy, mean_top5_accuracy_contributions = _functions(partial(_mean_of, among_five), "share")
