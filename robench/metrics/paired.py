"""Paired comparison of two verdicts on the same examples.

Source: McNemar 1947, in the exact form: of the examples on which the two differ, each is as likely to go one way as the
other, so that their number follows a binomial distribution with probability 1/2. The interval of the difference is
Newcombe 1998, "Improved confidence intervals for the difference between binomial proportions based on paired data",
Statistics in Medicine 17, method 10: Wilson's intervals of both proportions, squared and added with the correlation of
the two verdicts, which is corrected for continuity.
"""

from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from robench.core.errors import ContractError
from robench.metrics.intervals import wilson_interval

NEWCOMBE = "Newcombe 95 %"


def exact_p_value(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p-value of the hypothesis that two verdicts differ by chance alone, in (0, 1].

    >>> exact_p_value([True] * 5, [False] * 5)
    0.0625
    """
    only_first, only_second = discordant(first, second)
    return min(1.0, 2 * tail_p_value(max(only_first, only_second), only_first + only_second))


def discordant(first: ArrayLike, second: ArrayLike) -> tuple[int, int]:
    """Return the numbers of examples for which only the first verdict is true, and only the second.

    Raises:
        ContractError: they are not of the same number of examples.
    """
    one, other = np.asarray(first, bool), np.asarray(second, bool)
    if len(one) != len(other):
        raise ContractError(f"paired verdicts must be of the same examples, got {len(one)} and {len(other)}")
    return int((one & ~other).sum()), int((other & ~one).sum())


@lru_cache(maxsize=4096)
def tail_p_value(count: int, num_trials: int) -> float:
    """Return the probability of at least ``count`` successes in ``num_trials`` trials of probability 1/2.

    With the examples that became wrong of all changed ones, it is the one-sided p-value that a model got no worse.

    >>> tail_p_value(5, 5)
    0.03125
    """
    ways, fewer = 1, 0
    # Whole numbers throughout; as many successes are as likely as as many failures.
    for number in range(num_trials - count + 1):
        fewer += ways
        ways = ways * (num_trials - number) // (number + 1)
    p_value: float = fewer / (1 << num_trials)
    return p_value


def newcombe_interval(both: int, only_first: int, only_second: int, neither: int) -> tuple[float, float]:
    """Return the bounds of the 95 % interval of the first proportion less the second, in [-1, 1].

    Arguments are the numbers of examples with both verdicts true, one of them alone, or neither.

    >>> [round(bound, 3) for bound in newcombe_interval(1, 1, 7, 12)]
    [-0.507, -0.026]
    """
    total = both + only_first + only_second + neither
    num_first, num_second = both + only_first, both + only_second
    one, other = num_first / total if total else 0.0, num_second / total if total else 0.0
    (low_one, high_one), (low_other, high_other) = wilson_interval(num_first, total), wilson_interval(num_second, total)
    spread = num_first * (total - num_first) * num_second * (total - num_second)
    covered = both * neither - only_first * only_second
    corrected = max(covered - total / 2, 0.0) if covered > 0 else covered
    correlation = corrected / sqrt(spread) if spread else 0.0

    def width(down: float, up: float) -> float:
        return sqrt(max(0.0, down * down - 2 * correlation * down * up + up * up))

    difference = (only_first - only_second) / total
    low = difference - width(one - low_one, high_other - other)
    high = difference + width(high_one - one, other - low_other)
    return max(-1.0, low), min(1.0, high)
