"""Paired comparison of two verdicts on the same examples.

Source: McNemar 1947, in the exact form: of the examples on which the two differ, each is as likely to go one way as the
other, so that their number follows a binomial distribution with probability 1/2.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING

from robench.core.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Sequence


def exact_p_value(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Return the two-sided p-value that two verdicts differ by chance alone, in (0, 1].

    >>> exact_p_value([True] * 5, [False] * 5)
    0.0625

    Raises:
        ContractError: they are not of the same number of examples.
    """
    if len(first) != len(second):
        raise ContractError(f"paired verdicts must be of the same examples, got {len(first)} and {len(second)}")
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    num_different, fewer = only_first + only_second, min(only_first, only_second)
    num_ways = sum(comb(num_different, count) for count in range(fewer + 1))
    return min(1.0, float(Fraction(2 * num_ways, 2**num_different)))
