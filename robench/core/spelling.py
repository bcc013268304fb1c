"""Fractions that preserve their spelling: ``6/255`` equals 2/85 but is displayed as ``6/255``."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class Spelled(Fraction):
    """Fraction with its original spelling, such as ``6/255`` or ``0.03``.

    It compares, hashes and prints like the reduced fraction, so that keys and comparisons do not depend on the
    spelling; arithmetic returns plain fractions.

    Attributes:
        spelling: the original text.

    Raises:
        ValueError: the text is not a number.

    >>> Spelled("6/255") == Fraction(2, 85), str(Spelled("6/255")), spelling_of(Spelled("6/255"))
    (True, '2/85', '6/255')
    """

    __slots__ = ("spelling",)

    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        """Return the number that the text represents."""
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
    """Return a number in its original spelling, or reduced if it has none."""
    return number.spelling if isinstance(number, Spelled) else str(number)
