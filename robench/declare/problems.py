"""Problems of a declaration, each with its place, raised together as one error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError
from robench.core.inert import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_SHOWN = 50
_LONGEST_STEP = 100

Place = tuple[str | int, ...]
"""Place of a value: the keys and positions that lead to it from the top."""


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
