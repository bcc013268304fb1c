"""Plain values of declarations, from YAML or from Python.

Numbers with a point or an exponent keep their spelling, so that 0.03 is 3/100 and not the nearest double, and messages
quote the author's text.
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
# The exponent of every double is smaller.
_LARGEST_EXPONENT = 330
_LONGEST_SHOWN = 60


class Unreadable(Enum):
    """Placeholder of a refused value, so that its reader reports nothing more about it."""

    UNREADABLE = "unreadable"


UNREADABLE = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True)
class Number:
    """Number with a point or an exponent, in its original spelling.

    >>> Number("1e-3").exact
    Fraction(1, 1000)
    """

    text: str

    @property
    def exact(self) -> Fraction:
        """Return the exact number."""
        return Fraction(self.text)

    @property
    def nearest(self) -> float:
        """Return the nearest double."""
        return float(self.text)


Value = None | bool | int | Number | str | Unreadable | list["Value"] | dict[str, "Value"]


def number_of(text: str) -> int | Number | None:
    """Return the number represented by ``text`` in decimals, or None if there is none or it is unreasonably large.

    >>> number_of("20"), number_of("0.5"), number_of("1e999999999")
    (20, Number(text='0.5'), None)
    """
    written = _NUMBER.fullmatch(text)
    # Without a limit, a few characters such as 1e999999999 would need a gigabyte of digits.
    if not written or len(text) > _LONGEST_NUMBER or abs(int(written["exponent"] or 0)) > _LARGEST_EXPONENT:
        return None
    if not any(mark in text for mark in ".eE"):
        return int(text)
    return Number(text) if math.isfinite(float(text)) else None


def looks_like_number(text: str) -> bool:
    """Return whether ``text`` is a decimal number of any length."""
    return _NUMBER.fullmatch(text) is not None


def show(value: object) -> str:
    """Format a value for messages: text quoted and truncated, lists and mappings by their type."""
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
