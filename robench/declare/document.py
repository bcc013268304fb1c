"""Documents: plain values of a declaration with their places, before they are interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from robench.declare.problems import Place, Problem, declaration_error, line_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robench.declare.values import Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Plain values with their places.

    Attributes:
        source: file or kind of declaration, as named in messages.
        text: the file's text; empty if there is none.
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
        """Return the value at a place, or None if there is none."""
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
        """Return the list at a place, or an empty one if there is none."""
        value = self.at(*place)
        return value if isinstance(value, list) else []

    def mapping_at(self, *place: str | int) -> dict[str, Value]:
        """Return the mapping at a place, or an empty one if there is none."""
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
