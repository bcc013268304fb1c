"""Pixel accuracy, mean accuracy and mean IoU of segmentation, from counts of pixels that are summed over images.

Source: mmsegmentation 1.2, ``mean_iou`` (aAcc, mAcc, mIoU): with t, p and b the numbers of true pixels of a class,
predicted ones and pixels of both over all images, pixel accuracy is sum b / sum t; mean accuracy the mean of b / t over
the classes with t > 0; and mean IoU the mean of b / (t + p - b) over those with t + p > 0, so that a class that is only
predicted counts as 0. Ignored pixels count nowhere.

None of the three is a mean over images. Intervals are those of the Bayesian bootstrap (Rubin 1981, "The Bayesian
bootstrap", Annals of Statistics 9(1)): images get Dirichlet weights, so that no resample lacks a class, as it would if
images were drawn. A ratio of sums is biased in resamples all the same; the bias is that of the mean resample.

The worst case of several attacks is chosen by image for pixel accuracy. For mean IoU it is chosen over the whole set,
greedily, as by Croce et al. 2024 (arXiv:2306.12941): from the strongest single condition on, the condition of an image
changes where the mean IoU of the set falls, until no change lowers it. So it is never above that of a single condition.
Intervals and tests keep this choice, which is not made anew in each of their draws.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition
from robench.metrics.contributions import Contributions, Sample, aligned, ids_of
from robench.metrics.intervals import (
    BOOTSTRAP,
    NUM_RESAMPLES,
    percentile_interval,
    resampled_sums,
    weighted_sums,
)
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings, Scope

    Counts = NDArray[np.int64]  # (N, K, 3): images, classes, and true, predicted and both
    Floats = NDArray[np.float64]

# tests/slow/test_segmentation_coverage.py simulates the coverage of mean IoU with classes that few images have.
FEWEST_IMAGES = 100
DIRICHLET = (
    f"Bayesian bootstrap 95 %, {NUM_RESAMPLES} Dirichlet weights of images, which covers about 88 % with 100 images "
    f"and 93 % with 200; none below {FEWEST_IMAGES}"
)
_TRUE, _PREDICTED, _BOTH = range(3)


def _metric(name: str, title: str, scope: Scope = "condition", *, interval: str = DIRICHLET) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit="share",
        task="segmentation",
        scope=scope,
        reads=(),
        interval=interval,
        implementation=f"robench.metrics.segmentation:{name}",
        contributions=f"robench.metrics.segmentation:{name}_contributions",
        takes_any_severity=scope == "family",
    )


SEGMENTATION_METRICS = (
    _metric("pixel_accuracy", "pixel accuracy"),
    _metric("class_accuracy", "mean class accuracy"),
    _metric("mean_iou", "mean IoU"),
    _metric("class_iou", "IoU", "class"),
    _metric("image_mean_iou", "mean IoU of an image", interval=BOOTSTRAP),
    _metric("worst_image_accuracy", "pixel accuracy of the worst image", interval=""),
    _metric("robust_pixel_accuracy", "robust pixel accuracy", "threat-model"),
    _metric("robust_mean_iou", "robust mean IoU", "threat-model"),
    _metric("corrupted_pixel_accuracy", "mean pixel accuracy", "family"),
    _metric("corrupted_class_accuracy", "mean class accuracy", "family"),
    _metric("corrupted_mean_iou", "mean IoU", "family"),
)


def counts_of(outcomes: Outcomes) -> Counts:
    """Return the counts (N, K, 3) of all classes up to the highest that occurs."""
    import numpy as np

    classes = outcomes.column("classes")
    rows = np.repeat(np.arange(len(classes)), [len(each) for each in classes])
    present = np.concatenate([*classes, np.empty(0, np.int64)])
    counts = np.zeros((len(outcomes), 1 + int(present.max(initial=0)), 3), np.int64)
    for place, name in enumerate(("num_true", "num_predicted", "num_both")):
        counts[rows, present, place] = np.concatenate([*outcomes.column(name), np.empty(0, np.int64)])
    return counts


def _accuracy(sums: Floats) -> Floats:
    """Return the pixel accuracy of sums (rows, K, 3); NaN without pixels."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        found: Floats = sums[..., _BOTH].sum(-1) / sums[..., _TRUE].sum(-1)
    return found


def _class_accuracy(sums: Floats) -> Floats:
    return _mean_ratio(sums[..., _BOTH], sums[..., _TRUE])


def _mean_iou(sums: Floats) -> Floats:
    """Return the mean IoU of sums (rows, K, 3), over classes that are true or predicted."""
    return _mean_ratio(sums[..., _BOTH], sums[..., _TRUE] + sums[..., _PREDICTED] - sums[..., _BOTH])


def _iou_of(sums: Floats, of_class: int) -> Floats:
    return _mean_iou(sums[..., of_class : of_class + 1, :])


def _mean_ratio(parts: Floats, wholes: Floats) -> Floats:
    import numpy as np

    counted = wholes > 0
    ratios = parts / np.where(counted, wholes, 1.0)
    with np.errstate(invalid="ignore"):
        found: Floats = np.where(counted, ratios, 0.0).sum(-1) / counted.sum(-1)
    return found


def _of_sums(ids: NDArray[np.str_], counts: Counts, statistic: Callable[[Floats], Floats]) -> Contributions:
    def of_samples(sums: Sequence[Floats]) -> Floats:
        (of_rows,) = sums
        return statistic(of_rows)

    return Contributions((Sample(ids, counts),), of_samples, is_of_sums=True)


def _estimate(readings: Readings, of: Callable[[Readings], Contributions]) -> Estimate:
    """Return the number of contributions with the interval of Dirichlet weights, and the bias of their mean."""
    import numpy as np

    contributions = of(readings)
    (sample,) = contributions.samples
    value, low, high, bias = contributions.number, None, None, None
    if not np.isfinite(value):
        raise IncompleteError("no pixel counts: all pixels are ignored, or have other classes")
    if len(sample.ids) >= FEWEST_IMAGES:
        drawn = contributions.statistic([weighted_sums(sample.ids, sample.values)])
        low, high = percentile_interval(drawn)
        # A bias may push the value out, of the numbers that a maximum or a minimum decides.
        low, high, bias = min(low, value), max(high, value), float(drawn.mean()) - value
    return Estimate(value=value, low=low, high=high, num_examples=len(sample.ids), bias=bias)


def _contributions(readings: Readings, statistic: Callable[[Floats], Floats]) -> Contributions:
    outcomes = only_condition(readings)
    return _of_sums(ids_of(outcomes, "the condition"), counts_of(outcomes), statistic)


pixel_accuracy_contributions = partial(_contributions, statistic=_accuracy)
class_accuracy_contributions = partial(_contributions, statistic=_class_accuracy)
mean_iou_contributions = partial(_contributions, statistic=_mean_iou)


def class_iou_contributions(readings: Readings) -> Contributions:
    """Return the counts of the class that the column is about."""
    import numpy as np

    of_class = readings.of_class or 0
    outcomes = only_condition(readings)
    counts = counts_of(outcomes)[:, of_class : of_class + 1]
    if not counts.shape[1]:
        counts = np.zeros((len(outcomes), 1, 3), np.int64)
    return _of_sums(ids_of(outcomes, "the condition"), counts, partial(_iou_of, of_class=0))


def robust_pixel_accuracy_contributions(readings: Readings) -> Contributions:
    """Return the counts of each image under the condition with the fewest right pixels."""
    import numpy as np

    ids, counts = _attacked(readings)
    worst = counts[..., _BOTH].sum(2).argmin(0)
    return _of_sums(ids, counts[worst, np.arange(len(ids))], _accuracy)


def robust_mean_iou_contributions(readings: Readings) -> Contributions:
    """Return the counts of each image under the condition that the choice over the whole set gives it."""
    import numpy as np

    ids, counts = _attacked(readings)
    chosen = worst_conditions(counts)
    return _of_sums(ids, counts[chosen, np.arange(len(ids))], _mean_iou)


def worst_conditions(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the condition (N,) of each image, of counts (C, N, K, 3), that makes the mean IoU of all images small.

    It begins at the condition of smallest mean IoU. Images are visited in their order, as often as one of them changes
    to a condition with which the mean IoU of all is smaller; each change lowers it, so that the search ends.
    """
    import numpy as np

    num_images = counts.shape[1]
    strongest = int(_mean_iou(counts.sum(1).astype(float)).argmin())
    chosen = np.full(num_images, strongest, np.int64)
    sums, changed = counts[strongest].sum(0), True
    while changed:
        changed = False
        for image in range(num_images):
            others = sums - counts[chosen[image], image] + counts[:, image]
            found = _mean_iou(others.astype(float))
            best = int(found.argmin())
            if found[best] < found[chosen[image]]:
                chosen[image], sums, changed = best, others[best], True
    return chosen


def _of_corruptions(readings: Readings, statistic: Callable[[Floats], Floats]) -> Contributions:
    """Return the counts of each image in each corruption, whose numbers are averaged."""
    conditions = [
        (f"{name} of severity {severity}", outcomes)
        for name, severities in readings.corrupted.items()
        for severity, outcomes in severities.items()
    ]
    ids, counts = _stacked(conditions)

    def mean_over_corruptions(sums: Floats) -> Floats:
        found: Floats = statistic(sums).mean(-1)
        return found

    return _of_sums(ids, counts.swapaxes(0, 1), mean_over_corruptions)


corrupted_pixel_accuracy_contributions = partial(_of_corruptions, statistic=_accuracy)
corrupted_class_accuracy_contributions = partial(_of_corruptions, statistic=_class_accuracy)
corrupted_mean_iou_contributions = partial(_of_corruptions, statistic=_mean_iou)


def _attacked(readings: Readings) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return the ids of the images and the counts (C, N, K, 3) of the clean condition and all attacks."""
    attacks = [(f"attack {place} of {len(readings.measured)}", each) for place, each in enumerate(readings.measured, 1)]
    return _stacked([*([] if readings.clean is None else [("the clean condition", readings.clean)]), *attacks])


def _stacked(conditions: Sequence[tuple[str, Outcomes]]) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return the ids of the images, in their order, and the counts (C, N, K, 3) of all conditions, by their names."""
    import numpy as np

    if not conditions:
        raise IncompleteError("there are no outcomes; measure an example first")
    ids = np.sort(ids_of(conditions[0][1], conditions[0][0]))
    parts = [counts_of(aligned(ids, outcomes, where)) for where, outcomes in conditions]
    counts = np.zeros((len(parts), len(ids), max(each.shape[1] for each in parts), 3), np.int64)
    for place, each in enumerate(parts):
        counts[place, :, : each.shape[1]] = each
    return ids, counts


# The numbers of these contributions.
corrupted_pixel_accuracy = partial(_estimate, of=corrupted_pixel_accuracy_contributions)
corrupted_class_accuracy = partial(_estimate, of=corrupted_class_accuracy_contributions)
corrupted_mean_iou = partial(_estimate, of=corrupted_mean_iou_contributions)
pixel_accuracy = partial(_estimate, of=pixel_accuracy_contributions)
class_accuracy = partial(_estimate, of=class_accuracy_contributions)
mean_iou = partial(_estimate, of=mean_iou_contributions)
class_iou = partial(_estimate, of=class_iou_contributions)
robust_pixel_accuracy = partial(_estimate, of=robust_pixel_accuracy_contributions)
robust_mean_iou = partial(_estimate, of=robust_mean_iou_contributions)


def image_mean_iou_contributions(readings: Readings) -> Contributions:
    """Return the mean IoU of each image, over the classes that are true or predicted there."""
    return _by_image(readings, _mean_iou)


def image_mean_iou(readings: Readings) -> Estimate:
    """Return the mean over images of their mean IoU; images whose pixels are all ignored have none."""
    from math import fsum

    (sample,) = image_mean_iou_contributions(readings).samples
    value = fsum(sample.values) / len(sample.ids)
    low, high = percentile_interval(resampled_sums(sample.ids, sample.values) / len(sample.ids))
    return Estimate(value=value, low=min(low, value), high=max(high, value), num_examples=len(only_condition(readings)))


def worst_image_accuracy_contributions(readings: Readings) -> Contributions:
    """Return the pixel accuracy of each image; the smallest is the number."""

    def smallest(samples: Sequence[Floats]) -> Floats:
        found: Floats = samples[0].min(-1)
        return found

    return Contributions(_by_image(readings, _accuracy).samples, smallest)


def worst_image_accuracy(readings: Readings) -> Estimate:
    """Return the pixel accuracy of the image on which it is smallest; no resample says how uncertain a minimum is."""
    value = worst_image_accuracy_contributions(readings).number
    return Estimate(value=value, low=None, high=None, num_examples=len(only_condition(readings)))


def _by_image(readings: Readings, statistic: Callable[[Floats], Floats]) -> Contributions:
    outcomes = only_condition(readings)
    counts = counts_of(outcomes)
    has_pixels = counts[..., _TRUE].any(1)
    if not has_pixels.any():
        raise IncompleteError("all pixels of all images are ignored; measure images with labels")
    ids = ids_of(outcomes, "the condition")[has_pixels]
    return Contributions((Sample(ids, statistic(counts[has_pixels].astype(float))),))
