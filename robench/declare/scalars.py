"""Readers of single fields, which convert plain values or refuse them with what was found and expected.

Types are strict: true is not a number, 1.0 is not a whole number, quoted digits are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from robench.core.errors import did_you_mean
from robench.core.spelling import Spelled
from robench.declarations.base import Argument, violations
from robench.declare.values import Number, show

if TYPE_CHECKING:
    from collections.abc import Mapping

Reader = Callable[[object], object]

# Of a fraction as text, in a dialect that JSON Schema has too.
FRACTION_PATTERN = "[-+]?[0-9]{1,30}(/([0-9]{1,30}))?"
_FRACTION = re.compile(FRACTION_PATTERN)
_PER_CENT = re.compile(r"[-+]?[0-9.]+ *(%|percent|per cent)")
_BUDGETS = "budgets are shares of the pixel range [0, 1], such as 8/255"


class RefusedError(Exception):
    """Error for a value that does not fit its field; the message gives both."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Annotation mark: ``check`` returns what is wrong with a value, or None."""

    check: Callable[[object], str | None]


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Annotation mark: ``read`` replaces the type's own reader."""

    read: Reader


def scalar_reader(hint: object, marks: tuple[object, ...]) -> Reader:
    """Return the reader of a field of type ``hint`` (a key of ``SCALARS``) within the bounds among ``marks``."""
    if own := next((mark.read for mark in marks if isinstance(mark, ReadBy)), None):
        return own
    read = SCALARS[hint]
    checks = [mark.check for mark in marks if isinstance(mark, Checked)]

    def read_within_bounds(value: object) -> object:
        converted = read(value)
        for wanted in violations(converted, marks):
            above_one = isinstance(converted, Fraction) and converted > 1
            raise RefusedError(f"must be {wanted}, got {show(value)}{f'; {_BUDGETS}' if above_one else ''}")
        for check in checks:
            if wrong := check(converted):
                raise RefusedError(wrong)
        return converted

    return read_within_bounds


def literal_reader(choices: tuple[object, ...], otherwise: str = "") -> Reader:
    """Return the reader of a field with text ``choices``; ``otherwise`` is added to its message on other values."""
    known = [str(choice) for choice in choices]

    def read_choice(value: object) -> object:
        if isinstance(value, str) and value in known:
            return value
        if isinstance(value, str):
            raise RefusedError(f"unknown value {show(value)}.{did_you_mean(value, known)}{otherwise}")
        raise refused(f"one of {', '.join(known)}", value)

    return read_choice


def refused(wanted: str, value: object) -> RefusedError:
    """Return the usual message: expected and found value."""
    return RefusedError(f"must be {wanted}, got {show(value)}")


def _read_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise refused("true or false", value)


def _read_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise refused("a whole number", value)


def _read_float(value: object) -> float:
    if isinstance(value, Number):
        return value.nearest
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise refused("a number", value)


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, Number)):
        raise RefusedError(f"must be text, got {show(value)}; put it in quotes")
    raise refused("text", value)


def _read_fraction(value: object) -> Fraction:
    if isinstance(value, Number):
        return Spelled(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        return Spelled(str(value))
    if isinstance(value, str) and (written := _FRACTION.fullmatch(value)):
        denominator = int(written[2] or 1)
        if denominator == 0:
            raise RefusedError(f"must be a finite number, got {value}, a division by zero")
        return Spelled(value)
    if isinstance(value, str) and _PER_CENT.fullmatch(value):
        raise RefusedError(f"must not be in per cent, got {show(value)}; {_BUDGETS}")
    raise refused("a fraction of whole numbers such as 8/255, or a number such as 0.03", value)


def _read_argument(value: object) -> Argument:
    if isinstance(value, Number):
        return value.nearest
    if value is None or isinstance(value, (str, int)):
        return value
    raise refused("text, a number, true, false or null", value)


SCALARS: Mapping[object, Reader] = {
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    str: _read_text,
    Fraction: _read_fraction,
    Argument: _read_argument,
}
