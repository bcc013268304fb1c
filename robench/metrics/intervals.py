"""Wilson's interval of a proportion.

Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22(158), p. 209. With
k successes of n and the normal quantile z, the bounds are the two p that solve (k/n - p)^2 = z^2 p (1 - p) / n. Unlike
the usual p +- z sqrt(p (1 - p) / n) it stays within [0, 1] and has a width at 0 % and 100 %.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

# Named with the numbers wherever they are displayed.
INTERVAL = "Wilson 95 %"
NUM_RESAMPLES = 1000
BOOTSTRAP = f"percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of examples"
_Z = NormalDist().inv_cdf(0.975)


def wilson_interval(num_successes: float, num_trials: float) -> tuple[float, float]:
    """Return the bounds, in [0, 1], of the 95 % interval of the proportion ``num_successes / num_trials``.

    Both are whole numbers, unless dependent trials count for less (``several_predictions``).

    Raises:
        ValueError: the counts do not form a proportion.

    >>> [round(bound, 3) for bound in wilson_interval(300, 500)]
    [0.556, 0.642]
    """
    if not 0 <= num_successes <= num_trials or num_trials == 0:
        raise ValueError(f"a proportion needs 0 <= successes <= trials > 0, got {num_successes} of {num_trials}")
    weight = num_trials + _Z**2
    centre = (num_successes + _Z**2 / 2) / weight
    half_width = _Z * sqrt(num_successes * (num_trials - num_successes) / num_trials + _Z**2 / 4) / weight
    # Rounding would put the bounds of 0 % and 100 % slightly inside or outside of them.
    low = 0.0 if num_successes == 0 else max(0.0, centre - half_width)
    high = 1.0 if num_successes == num_trials else min(1.0, centre + half_width)
    return low, high
