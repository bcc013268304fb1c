"""95 % intervals of a number: Wilson's of a proportion, the percentile bootstrap of all others.

Wilson's interval: Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22(158),
p. 209. With k successes of n and the normal quantile z, the bounds are the two p that solve (k/n - p)^2 = z^2 p (1 - p)
/ n. Unlike the usual p +- z sqrt(p (1 - p) / n) it stays within [0, 1] and has a width at 0 % and 100 %.

The bootstrap: Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1); the percentile
interval: Efron and Tibshirani 1993, "An introduction to the bootstrap", chapter 13. A resample draws as many examples
as there are, each with the same probability, with replacement. All outcomes of an example are drawn together, so that
correlated errors of several conditions on one image are not counted as independent.

The draws are exactly those (no normal or Poisson weights in their place) and belong to the examples: one PCG64
generator, seeded by a hash of all ids, picks from the ids in sorted order. So the order of outcomes does not matter,
and every model and column over the same examples uses the same resamples.

Bounds are themselves random: with 1,000 resamples each is known to about 4 % of the half-width. Like every percentile
interval it has no width if no two examples differ (nothing wrong, or everything), unlike Wilson's interval of a
proportion; it is too narrow for a handful of examples, and for statistics that depend on a handful.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from statistics import NormalDist, quantiles
from typing import TYPE_CHECKING, Any

from robench.core.errors import IncompleteError
from robench.core.identity import key_of
from robench.core.ids import order_of
from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

# Named with the numbers wherever they are displayed.
INTERVAL = "Wilson 95 %"
NUM_RESAMPLES = 1000
BOOTSTRAP = f"percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of examples"
_Z = NormalDist().inv_cdf(0.975)
# Number of resamples drawn, and converted to floats, at once: 50,000 examples then take 4 MB an array.
_CHUNK = 10


def wilson_interval(num_successes: float, num_trials: float, normal: float = _Z) -> tuple[float, float]:
    """Return the bounds, in [0, 1], of the interval of the proportion ``num_successes / num_trials``.

    Both are whole numbers, unless dependent trials count for less (``several_predictions``). ``normal`` is the quantile
    of the normal distribution that the level gives, by default that of 95 %.

    Raises:
        ValueError: the counts do not form a proportion.

    >>> [round(bound, 3) for bound in wilson_interval(300, 500)]
    [0.556, 0.642]
    """
    if not 0 <= num_successes <= num_trials or num_trials == 0:
        raise ValueError(f"a proportion needs 0 <= successes <= trials > 0, got {num_successes} of {num_trials}")
    weight = num_trials + normal**2
    centre = (num_successes + normal**2 / 2) / weight
    half_width = normal * sqrt(num_successes * (num_trials - num_successes) / num_trials + normal**2 / 4) / weight
    # Rounding would put the bounds of 0 % and 100 % slightly inside or outside of them.
    low = 0.0 if num_successes == 0 else max(0.0, centre - half_width)
    high = 1.0 if num_successes == num_trials else min(1.0, centre + half_width)
    return low, high


def resample_counts(ids: NDArray[Any], *, purpose: str = "bootstrap") -> Iterator[NDArray[np.float64]]:
    """Yield the multiplicity of each example in each resample, ``NUM_RESAMPLES`` rows in all, some at a time.

    Columns are in the order of the ids (N,). Sets with different ``purpose`` are drawn independently.

    Raises:
        IncompleteError: there are no examples.
    """
    import numpy as np

    if not len(ids):
        raise IncompleteError("there are no outcomes to resample; measure an example first")
    order = order_of(ids)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    seed = int(key_of(ids[order].tolist()), 16)
    counts = _counts(seed, len(ids), purpose)
    for start in range(0, NUM_RESAMPLES, _CHUNK):
        yield counts[start : start + _CHUNK].take(places, axis=1).astype(np.float64)


def resampled_sums(ids: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the values (N,) of the examples in each resample; arguments and errors as above.

    The result is independent of the order of the examples, to the last bit.
    """
    import numpy as np

    order = order_of(ids)
    ordered = values[order]
    # Not by a matrix product, whose last bits depend on the number of threads.
    return np.concatenate([(counts * ordered).sum(1) for counts in resample_counts(ids[order])])


def weighted_sums(ids: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums (resamples, ...) of values (N, ...) with each resample's Dirichlet weights, up to their scale.

    Weights are whole numbers, so that sums of whole numbers are exact in any order, up to 2^53.

    Raises:
        IncompleteError: there are no examples.
    """
    import numpy as np

    if not len(ids):
        raise IncompleteError("there are no outcomes to resample; measure an example first")
    order = order_of(ids)
    weights = _weights(int(key_of(ids[order].tolist()), 16), len(ids))
    ordered = values[order].reshape(len(ids), -1).astype(np.float64)
    parts = [weights[start : start + _CHUNK].astype(np.float64) @ ordered for start in range(0, NUM_RESAMPLES, _CHUNK)]
    return np.concatenate(parts).reshape(NUM_RESAMPLES, *values.shape[1:])


@lru_cache(maxsize=2)
def _weights(seed: int, num_examples: int) -> NDArray[np.uint32]:
    """Return weights (resamples, examples), in the order of the ids: exponential, in units of 1 / 4096, at least one.

    Divided by their sum, exponential weights have the Dirichlet distribution with parameters 1.
    """
    import numpy as np

    generator = np.random.PCG64(stream_seed(seed, Stream(purpose="bayesian bootstrap")))
    uniform = ((generator.random_raw(NUM_RESAMPLES * num_examples) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    weights = np.maximum(1, np.rint(-4096 * np.log(uniform))).astype(np.uint32)
    by_resample: NDArray[np.uint32] = weights.reshape(NUM_RESAMPLES, num_examples)
    return by_resample


# All columns over the same examples follow each other; a second entry is for the negatives of detection.
@lru_cache(maxsize=2)
def _counts(seed: int, num_examples: int, purpose: str) -> NDArray[np.uint8]:
    """Return the counts (resamples, examples) of the examples in the order of their ids.

    A count above 255 has a probability below 1e-500.
    """
    import numpy as np

    generator = np.random.PCG64(stream_seed(seed, Stream(purpose=purpose)))
    counts = np.empty((NUM_RESAMPLES, num_examples), np.uint8)
    for start in range(0, NUM_RESAMPLES, _CHUNK):
        chunk = counts[start : start + _CHUNK]
        # Raw words, which no release of numpy draws otherwise; 53 bits make a double in [0, 1).
        uniform = (generator.random_raw(chunk.size) >> np.uint64(11)) * 2.0**-53
        rows = np.repeat(num_examples * np.arange(len(chunk)), num_examples)
        places = (uniform * num_examples).astype(np.int64) + rows
        chunk[:] = np.bincount(places, minlength=chunk.size).reshape(chunk.shape)
    return counts


def percentile_interval(statistics: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of a statistic's values in the resamples.

    Interpolates linearly between two values, like numpy.percentile.

    Raises:
        ValueError: there are fewer than two values.

    >>> percentile_interval(range(1001))
    (25.0, 975.0)
    """
    if len(statistics) < 2:
        raise ValueError(f"percentiles need at least two resamples, got {len(statistics)}")
    cuts = quantiles(map(float, statistics), n=40, method="inclusive")
    return cuts[0], cuts[-1]
