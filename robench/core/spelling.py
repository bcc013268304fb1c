"""Fractions that remember how they were written: ``6/255`` is 2/85, and a reader should meet ``6/255``."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class Spelled(Fraction):
    """A fraction as it was written, such as ``6/255`` or ``0.03``.

    Equal to, hashed and printed as the reduced fraction, so that keys and comparisons do not depend on the spelling;
    arithmetic gives plain fractions.

    Attributes:
        spelling: text as it was written.

    Raises:
        ValueError: the text is no number.

    >>> Spelled("6/255") == Fraction(2, 85), str(Spelled("6/255")), spelling_of(Spelled("6/255"))
    (True, '2/85', '6/255')
    """

    __slots__ = ("spelling",)

    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        """Return the number that the text writes."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.spelling,)

    def __copy__(self) -> Spelled:
        return self

    def __deepcopy__(self, memo: Any) -> Spelled:
        return self


def spelling_of(number: Fraction) -> str:
    """Return a number as it was written, or reduced where nobody wrote it."""
    return number.spelling if isinstance(number, Spelled) else str(number)
