"""Documents from Python values, equivalent to those from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral

from robench.declare.document import Document
from robench.declare.problems import Place, Problem
from robench.declare.values import MAX_DEPTH, UNREADABLE, Number, Unreadable, Value, number_of, show

_MAX_VALUES = 100_000
_LARGEST_INTEGER = 10**60


def document_from_python(value: object, source: str) -> Document:
    """Return mappings, lists, text and numbers as a document; a float is read by its repr, so 0.03 is 3/100."""
    reader = _Reader()
    return Document(source=source, value=reader.read(value, ()), problems=tuple(reader.problems))


class _Reader:
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
