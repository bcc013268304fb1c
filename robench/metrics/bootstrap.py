"""Percentile intervals of numbers that no formula gives an interval for, by resampling examples.

Source: Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1); the percentile
interval: Efron and Tibshirani 1993, "An introduction to the bootstrap", chapter 13. A resample draws as many examples
as there are, each with the same probability, with replacement. All that is known of an example is drawn with it: what
several conditions made of one image stays together, so that errors that go together are not counted as independent.

The draws are exactly those (no normal or Poisson weights in their place) and belong to the examples: their seed is a
hash of all ids and of the resample's number, and each picks from the ids in sorted order. So the order in which
outcomes come does not matter, and every model and column over the same examples meets the same resamples.

Bounds are themselves random: with 1,000 resamples each is known to about 4 % of the half-width. Like every percentile
interval it has no width where no two examples differ (nothing wrong, or everything), where Wilson's interval of a share
has one; it is too narrow for a handful of examples, and for what a handful decides.
"""

from __future__ import annotations

from random import Random
from statistics import quantiles
from typing import TYPE_CHECKING, TypeVar

from robench.core.errors import IncompleteError
from robench.core.identity import key_of
from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NUM_RESAMPLES = 1000
# Named with the numbers wherever they are shown.
INTERVAL = f"percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of examples"

Value = TypeVar("Value")


def resamples(by_id: Mapping[str, Value], *, purpose: str = "bootstrap") -> Iterator[list[Value]]:
    """Yield ``NUM_RESAMPLES`` lists of ``len(by_id)`` values, drawn with replacement.

    Args:
        by_id: what is known of each example, by its id.
        purpose: sets of examples that are drawn independently of each other have different ones.

    Raises:
        IncompleteError: there are no examples.
    """
    if not by_id:
        raise IncompleteError("there are no outcomes to resample; measure an example first")
    ids = sorted(by_id)
    values = [by_id[example_id] for example_id in ids]
    seed = int(key_of(ids), 16)
    for number in range(NUM_RESAMPLES):
        stream = Stream(purpose=purpose, draw=number)
        yield Random(stream_seed(seed, stream)).choices(values, k=len(values))


def percentile_interval(statistics: Sequence[float]) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of what a statistic came to in the resamples.

    Between two of them it interpolates linearly, as numpy.percentile does.

    Raises:
        ValueError: there are fewer than two.

    >>> percentile_interval(range(1001))
    (25.0, 975.0)
    """
    if len(statistics) < 2:
        raise ValueError(f"percentiles need at least two resamples, got {len(statistics)}")
    cuts = quantiles(statistics, n=40, method="inclusive")
    return cuts[0], cuts[-1]
