"""95 % intervals of the difference between two models' numbers on the same examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robench.metrics.bootstrap import percentile_interval, resample_counts, resampled_sums
from robench.metrics.intervals import NUM_RESAMPLES
from robench.metrics.paired import NEWCOMBE, discordant, newcombe_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robench.comparison.pairing import Paired

PAIRED_BOOTSTRAP = f"paired percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference of two numbers, the first less the second, in their unit.

    Attributes:
        low, high: bounds of its 95 % interval; None where undefined.
        method: method of the interval.
    """

    value: float
    low: float | None
    high: float | None
    method: str


def difference_of(paired: Paired) -> Difference:
    """Return the difference with its interval: Newcombe's of binary outcomes, the bootstrap's of all others.

    A resample draws both models' values of an example together. It has no bounds where a resample's difference is
    infinite or undefined.
    """
    value = paired.difference
    if paired.is_binary:
        first, second = paired.verdicts
        only_first, only_second = discordant(first, second)
        both = int((first & second).sum())
        low, high = newcombe_interval(both, only_first, only_second, len(first) - both - only_first - only_second)
        return Difference(value=value, low=low, high=high, method=NEWCOMBE)
    drawn = _resampled(paired)
    if not np.isfinite(drawn).all():
        return Difference(value=value, low=None, high=None, method=PAIRED_BOOTSTRAP)
    low, high = percentile_interval(drawn)
    # Where no two examples differ, rounding alone would leave the value outside.
    return Difference(value=value, low=min(low, value), high=max(high, value), method=PAIRED_BOOTSTRAP)


def _resampled(paired: Paired) -> NDArray[np.float64]:
    """Return the difference in each resample of the examples, each sample of which is resampled by itself."""
    if paired.is_mean:
        (sample,) = paired.samples
        return resampled_sums(sample.ids, (sample.first - sample.second) / len(sample.ids))
    streams = [resample_counts(sample.ids, purpose=sample.purpose) for sample in paired.samples]
    found = []
    for counts in zip(*streams, strict=True):
        drawn = [_drawn(each) for each in counts]
        pairs = list(zip(paired.samples, drawn, strict=True))
        found.append(
            paired.differences(
                [sample.first[places] for sample, places in pairs], [sample.second[places] for sample, places in pairs]
            )
        )
    return np.concatenate(found)


def _drawn(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of the examples (rows, N) that were drawn as often as ``counts`` (rows, N) says."""
    num_rows, num_examples = counts.shape
    places = np.tile(np.arange(num_examples), num_rows)
    return np.repeat(places, counts.ravel().astype(np.int64)).reshape(num_rows, num_examples)
