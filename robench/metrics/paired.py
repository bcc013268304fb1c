"""Paired comparison of two verdicts on the same examples.

Source: McNemar 1947, in the exact form: of the examples on which the two differ, each is as likely to go one way as the
other, so that their number follows a binomial distribution with probability 1/2.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from robench.core.errors import ContractError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def exact_p_value(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p-value of the hypothesis that two verdicts differ by chance alone, in (0, 1].

    >>> exact_p_value([True] * 5, [False] * 5)
    0.0625

    Raises:
        ContractError: their numbers of examples differ.
    """
    one, other = np.asarray(first, bool), np.asarray(second, bool)
    if len(one) != len(other):
        raise ContractError(f"paired verdicts must be of the same examples, got {len(one)} and {len(other)}")
    only_first, only_second = int((one & ~other).sum()), int((other & ~one).sum())
    num_different, fewer = only_first + only_second, min(only_first, only_second)
    num_ways = sum(comb(num_different, count) for count in range(fewer + 1))
    return min(1.0, float(Fraction(2 * num_ways, 2**num_different)))
