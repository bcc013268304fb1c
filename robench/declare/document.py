"""Documents: plain values of declarations, from YAML or from Python, with their places and the problems found at them.

Numbers with a point or an exponent keep their spelling, so that 0.03 is 3/100 and not the nearest double, and messages
quote the author's text.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from numbers import Integral
from typing import TypeVar

from robench.core.errors import DeclarationError
from robench.core.inert import printable

T = TypeVar("T")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE](?P<exponent>[-+]?[0-9]+))?")
MAX_DEPTH = 32
_LONGEST_NUMBER = 64
# The exponent of every double is smaller.
_LARGEST_EXPONENT = 330
_LONGEST_SHOWN = 60
_MAX_VALUES = 100_000
_LARGEST_INTEGER = 10**60
MOST_SHOWN = 50
_LONGEST_STEP = 100

Place = tuple[str | int, ...]
"""Place of a value: the keys and positions that lead to it from the top."""


class Unreadable(Enum):
    """Placeholder of a refused value, so that its reader reports nothing more about it."""

    UNREADABLE = "unreadable"


UNREADABLE = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True)
class Number:
    """Number with a point or an exponent, in its original spelling.

    >>> Number("1e-3").nearest
    0.001
    """

    text: str

    @property
    def nearest(self) -> float:
        """Return the nearest double."""
        return float(self.text)


Value = None | bool | int | Number | str | Unreadable | list["Value"] | dict[str, "Value"]


def number_of(text: str) -> int | Number | None:
    """Return the number represented by ``text`` in decimals, or None for other texts and unreasonably large numbers.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Single mistake: ``line`` is None if the declaration did not come from a file."""

    place: Place
    line: int | None
    message: str

    def __str__(self) -> str:
        parts = [f"line {self.line}" if self.line is not None else "", path_of(self.place), self.message]
        text = ": ".join(part for part in parts if part)
        # Content of an untrusted file must not control the reader's terminal.
        return printable(text)


def path_of(place: Place) -> str:
    """Format a place as in messages.

    >>> path_of(("conditions", 1, "perturbation", "num_steps"))
    'conditions[1].perturbation.num_steps'
    """
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            # A key may hold anything, line breaks and terminal controls included.
            name = step if step.replace("-", "_").replace(".", "_").isidentifier() else repr(step)
            name = name if len(name) <= _LONGEST_STEP else f"{name[:_LONGEST_STEP]}..."
            path += f".{name}" if path else name
    return path


def line_of(place: Place, lines: Mapping[Place, int]) -> int | None:
    """Return the line of a place, or of its nearest ancestor with a line."""
    return next((lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in lines), None)


def declaration_error(source: str, problems: Iterable[Problem]) -> DeclarationError:
    """Return one error that lists the problems by line, the first 50 at most, under the name of their source."""
    by_line = sorted(problems, key=lambda problem: problem.line or 0)
    count = f"{len(by_line):,} problem{'s' if len(by_line) > 1 else ''}"
    shown = [f"  {problem}" for problem in by_line[:MOST_SHOWN]]
    more = [f"  ... and {len(by_line) - MOST_SHOWN:,} more"] if len(by_line) > MOST_SHOWN else []
    return DeclarationError(f"{source}: {count}", *shown, *more, num_problems=len(by_line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Plain values with their places.

    Attributes:
        source: file or kind of declaration, as named in messages.
        text: the file's text; may be empty.
        lines: line of each place, counted from 1.
        spans: first character and the one after the last of each scalar and each empty mapping or list in ``text``.
        problems: problems found while reading, before any field was checked.
    """

    source: str
    value: Value
    text: str = ""
    lines: Mapping[Place, int] = field(default_factory=dict)
    spans: Mapping[Place, tuple[int, int]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def problem(self, place: Place, message: str) -> Problem:
        """Return a problem at a place of this document, with the place's line."""
        return Problem(place=place, line=line_of(place, self.lines), message=message)

    def at(self, *place: str | int) -> Value:
        """Return the value at a place, or None."""
        value = self.value
        for step in place:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def list_at(self, *place: str | int) -> list[Value]:
        """Return the list at a place, or an empty one."""
        value = self.at(*place)
        return value if isinstance(value, list) else []

    def mapping_at(self, *place: str | int) -> dict[str, Value]:
        """Return the mapping at a place, or an empty one."""
        value = self.at(*place)
        return value if isinstance(value, dict) else {}

    def settle(self, value: T | None, problems: Iterable[Problem]) -> T:
        """Return the value, or raise all problems, including those found while reading, as one error.

        Raises:
            DeclarationError: there is at least one problem.
        """
        found = [*self.problems, *problems]
        if found or value is None:
            raise declaration_error(self.source, found)
        return value


def document_from_python(value: object, source: str) -> Document:
    """Return mappings, lists, text and numbers as a document; a float is read by its repr, so 0.03 is 3/100."""
    reader = _PythonReader()
    return Document(source=source, value=reader.read(value, ()), problems=tuple(reader.problems))


class _PythonReader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.num_values = 0

    def read(self, value: object, place: Place) -> Value:
        # Recursive lists, or lists that repeat each other many times, would never end.
        self.num_values += 1
        if self.num_values > _MAX_VALUES:
            return UNREADABLE if self.problems else self._refuse(place, f"holds more than {_MAX_VALUES} values")
        if isinstance(value, (Mapping, list, tuple)) and len(place) >= MAX_DEPTH:
            return self._refuse(place, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            return {
                str.__str__(key): self.read(value[key], (*place, key)) for key in value if self._is_text(key, place)
            }
        if isinstance(value, (list, tuple)):
            return [self.read(item, (*place, index)) for index, item in enumerate(value)]
        return self._read_scalar(value, place)

    def _read_scalar(self, value: object, place: Place) -> Value:
        match value:
            case None | bool() | Number() | Unreadable():
                return value
            case str():
                return str.__str__(value)
            case Fraction():
                return str(value)
            case Integral() if abs(int(value)) < _LARGEST_INTEGER:
                return int(value)
            case float() if (number := number_of(float.__repr__(value))) is not None:
                return number
            case Integral() | float():
                return self._refuse(place, "must be a finite number of reasonable size")
        return self._refuse(place, f"must be text, a number, a list or a mapping, got {type(value).__name__}")

    def _is_text(self, key: object, place: Place) -> bool:
        if not isinstance(key, str):
            self._refuse(place, f"must have text as keys, got {show(key)}")
        return isinstance(key, str)

    def _refuse(self, place: Place, message: str) -> Unreadable:
        self.problems.append(Problem(place=place, line=None, message=message))
        return UNREADABLE
