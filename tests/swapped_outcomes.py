"""The slow reference of a paired permutation: rows of outcomes are swapped, and the metric is computed anew."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robench.comparison.permutation import Permuted, swaps
from robench.core.columns import Outcomes
from robench.core.ids import distinct
from robench.metrics import Metric, Readings
from robench.metrics.contributions import aligned, ids_of

Change = Callable[[Outcomes, Outcomes], Outcomes]


def permuted_readings(metric: Metric, first: Readings, second: Readings, num_draws: int) -> Permuted:
    """Return the differences of the metric in random swaps of both models' outcomes."""
    second = _changed(first, second, _in_order_of)
    everyone = [ids_of(each, "a condition") for each in _all_of(first)]
    observed = metric.compute(first).value - metric.compute(second).value
    together = distinct(everyone)
    drawn = []
    for (rows,) in swaps([together], num_draws):
        for row in rows:
            swap = _swapper({str(name) for name in together[row].tolist()})
            one = metric.compute(_changed(first, second, swap))
            other = metric.compute(_changed(second, first, swap))
            drawn.append(one.value - other.value)
    return Permuted(observed, np.array(drawn))


def _swapper(swapped: set[str]) -> Change:
    def swap(kept: Outcomes, other: Outcomes) -> Outcomes:
        ids: NDArray[np.object_] = kept.ids.astype(object)
        is_swapped = np.array([each in swapped for each in ids], np.bool_)
        return Outcomes.joined([kept, other]).take(np.arange(len(ids)) + len(ids) * is_swapped)

    return swap


def _in_order_of(first: Outcomes, second: Outcomes) -> Outcomes:
    return aligned(ids_of(first, "the first model"), second, "the second model")


def _changed(first: Readings, second: Readings, change: Change) -> Readings:
    def optional(one: Outcomes | None, other: Outcomes | None) -> Outcomes | None:
        return None if one is None or other is None else change(one, other)

    def severities(one: Mapping[int, Outcomes], other: Mapping[int, Outcomes]) -> dict[int, Outcomes]:
        return {severity: change(outcomes, other[severity]) for severity, outcomes in one.items()}

    return replace(
        first,
        measured=tuple(change(one, other) for one, other in zip(first.measured, second.measured, strict=True)),
        clean=optional(first.clean, second.clean),
        negatives=optional(first.negatives, second.negatives),
        corrupted={name: severities(each, second.corrupted[name]) for name, each in first.corrupted.items()},
    )


def _all_of(readings: Readings) -> list[Outcomes]:
    corrupted = [outcomes for severities in readings.corrupted.values() for outcomes in severities.values()]
    others = [each for each in (readings.clean, readings.negatives) if each is not None]
    return [*readings.measured, *others, *corrupted]
