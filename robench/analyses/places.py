"""Places along the axes of formulas: logarithmic spacing, and bounds of declared lists."""

from collections.abc import Sequence
from itertools import pairwise

from robench.declarations.base import FieldProblem

# More lines in a figure cannot be distinguished.
LONGEST = 20


def log_spaced(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return ``count`` whole numbers, evenly spaced on a logarithmic axis from ``first`` >= 1 to ``last``.

    Numbers that are equal after rounding are there once.
    """
    return tuple(sorted({round(first * (last / first) ** (place / (count - 1))) for place in range(count)}))


def problems_of_list(field: str, given: Sequence[float], least: float, most: float) -> list[FieldProblem]:
    """Return why a list is not 1 to ``LONGEST`` numbers within bounds in ascending order."""
    if not 1 <= len(given) <= LONGEST:
        return [(field, f"must have 1 to {LONGEST} entries, got {len(given)}")]
    shown = ", ".join(map(str, given))
    if not all(least <= each <= most for each in given):
        return [(field, f"must be from {least} to {most} each, got {shown}")]
    if any(after <= before for before, after in pairwise(given)):
        return [(field, f"must be in ascending order, without repetition, got {shown}")]
    return []
