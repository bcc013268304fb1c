"""The plain values that a declaration is read from, whether they come from YAML or from Python.

Numbers with a point or an exponent stay as they were written, so that 0.03 is 3/100 and not the nearest double, and so
that messages show what the author typed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE](?P<exponent>[-+]?[0-9]+))?")
MAX_DEPTH = 32
_LONGEST_NUMBER = 64
# That of every double is smaller.
_LARGEST_EXPONENT = 330
_LONGEST_SHOWN = 60


class Unreadable(Enum):
    """Stands where a value was refused already, so that its reader reports nothing more about it."""

    UNREADABLE = "unreadable"


UNREADABLE = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True)
class Number:
    """A number with a point or an exponent, as it was written.

    >>> Number("1e-3").exact
    Fraction(1, 1000)
    """

    text: str

    @property
    def exact(self) -> Fraction:
        """The number itself."""
        return Fraction(self.text)

    @property
    def nearest(self) -> float:
        """The nearest double."""
        return float(self.text)


Value = None | bool | int | Number | str | Unreadable | list["Value"] | dict[str, "Value"]


def number_of(text: str) -> int | Number | None:
    """Return the number that ``text`` writes in decimals, or None where it writes none or one beyond all reason.

    >>> number_of("20"), number_of("0.5"), number_of("1e999999999")
    (20, Number(text='0.5'), None)
    """
    written = _NUMBER.fullmatch(text)
    # Without a limit, a few characters such as 1e999999999 would ask for a gigabyte of digits.
    if not written or len(text) > _LONGEST_NUMBER or abs(int(written["exponent"] or 0)) > _LARGEST_EXPONENT:
        return None
    if not any(mark in text for mark in ".eE"):
        return int(text)
    return Number(text) if math.isfinite(float(text)) else None


def looks_like_number(text: str) -> bool:
    """Whether ``text`` is a decimal number, however long."""
    return _NUMBER.fullmatch(text) is not None


def show(value: object) -> str:
    """Return how messages show a value: text in quotes and cut short, lists and mappings by their kind."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return repr(value if len(value) <= _LONGEST_SHOWN else f"{value[: _LONGEST_SHOWN - 3]}...")
        case Number(text=text):
            return text
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
    return str(value)
