"""Layout of grids within a width: which way round, in how many parts, and where the facts of models go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap

WIDTH = 160
# Header and rows of texts.
Lines = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Texts by row and column, and facts of the models that rows, or columns, are about.

    Attributes:
        corner: heading of the labels.
        labels, headings: names of the rows and of the columns.
        cells: texts, row by row.
        facts: texts by the fact's name, as many as there are models.
        has_models_in_columns: whether the facts are those of columns.
    """

    corner: str = ""
    labels: tuple[str, ...]
    headings: tuple[str, ...]
    cells: Lines
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_models_in_columns: bool = False

    def mapped(self, shown: Callable[[str], str]) -> Grid:
        """Return the grid with a function applied to each text."""
        return replace(
            self,
            corner=shown(self.corner),
            labels=tuple(map(shown, self.labels)),
            headings=tuple(map(shown, self.headings)),
            cells=tuple(tuple(map(shown, row)) for row in self.cells),
            facts={name: tuple(map(shown, texts)) for name, texts in self.facts.items()},
        )

    @property
    def turned(self) -> Grid:
        """Return the same texts with rows as columns."""
        return replace(
            self,
            labels=self.headings,
            headings=self.labels,
            cells=tuple(zip(*self.cells, strict=True)),
            has_models_in_columns=not self.has_models_in_columns,
        )

    @property
    def lines(self) -> Lines:
        """Return header and rows, with the facts beside rows or above columns."""
        if self.has_models_in_columns:
            above = [(name, *texts) for name, texts in self.facts.items()]
            rows = [(label, *cells) for label, cells in zip(self.labels, self.cells, strict=True)]
            return ((self.corner, *self.headings), *above, *rows)
        beside = zip(*self.facts.values(), strict=True) if self.facts else [()] * len(self.labels)
        named = zip(self.labels, beside, self.cells, strict=True)
        return ((self.corner, *self.facts, *self.headings), *((label, *facts, *cells) for label, facts, cells in named))

    @property
    def models(self) -> Lines:
        """Return the facts as lines of their own, a row for each model."""
        names = self.headings if self.has_models_in_columns else self.labels
        return ((self.corner, *self.facts), *zip(names, *self.facts.values(), strict=True))


def fitted(grid: Grid, width: float = WIDTH) -> tuple[Lines, ...]:
    """Return a grid as tables of at most a width, as far as its texts allow.

    It stays as it is, or else is turned, or else is split into consecutive columns, whichever gives fewest tables.
    Facts of models stay beside them where there is room, and else become the last table.
    """
    found = []
    for is_turned in (False, True):
        each = grid.turned if is_turned else grid
        for is_separate in (False, True) if grid.facts else (False,):
            lines = replace(each, facts={}).lines if is_separate else each.lines
            num_fixed = 1 if each.has_models_in_columns or is_separate else 1 + len(grid.facts)
            parts = _split(lines, num_fixed, width)
            tables = (*parts, grid.models) if is_separate else parts
            excess = max(0, max(map(width_of, tables)) - width)
            # Facts beside the rows of several parts would be repeated.
            is_repeated = len(parts) > 1 and num_fixed > 1
            found.append(((excess, len(parts), is_turned, is_separate or is_repeated, is_repeated), tables))
    return min(found, key=lambda each: each[0])[1]


def width_of(lines: Lines) -> int:
    """Return the width of a table in Markdown, the widest of the formats."""
    return sum(_widths(lines)) + 3 * len(lines[0]) + 1


def _widths(lines: Lines) -> list[int]:
    return [max(3, *map(len, column)) for column in zip(*lines, strict=True)]


def _split(lines: Lines, num_fixed: int, width: float) -> tuple[Lines, ...]:
    """Return the columns of a table in as few parts as fit, of equal numbers of columns if those fit too."""
    widths = [each + 3 for each in _widths(lines)]
    room = width - 1 - sum(widths[:num_fixed])
    parts: list[list[int]] = []
    left = 0.0
    for column in range(num_fixed, len(widths)):
        if not parts or widths[column] > left:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= widths[column]
    count = -(-(len(widths) - num_fixed) // max(1, len(parts)))
    columns = list(range(num_fixed, len(widths)))
    even = [columns[start : start + count] for start in range(0, len(columns), count)] if columns else []
    if all(sum(widths[column] for column in part) <= room for part in even):
        parts = even
    return tuple(
        tuple(tuple(row[column] for column in (*range(num_fixed), *part)) for row in lines) for part in parts or [[]]
    )


def markdown_grid(lines: Lines) -> str:
    """Return a table in Markdown; the texts are escaped already."""
    widths = _widths(lines)
    header, *rows = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in lines]
    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([header, rule, *rows])


def text_grid(lines: Lines) -> str:
    """Return an aligned table without colours."""
    widths = _widths(lines)
    header, *rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in lines]
    return "\n".join([header, "  ".join("-" * width for width in widths), *rows])


# What begins a list, or underlines a heading.
_STARTS = re.compile(r"[-+=]|(?P<number>\d{1,9})[.)](?=\s|$)")


def markdown_paragraph(text: str, *, is_item: bool = False) -> str:
    """Return escaped text in lines, as an item of a list if wanted; no line begins anything in Markdown."""
    lines = [_protected(line) for line in _wrapped(text, is_item=is_item)]
    return ("\n  " if is_item else "\n").join([f"- {lines[0]}" if is_item else lines[0], *lines[1:]])


def text_paragraph(text: str, *, is_item: bool = False) -> str:
    """Return text in lines, as an item of a list if wanted."""
    lines = _wrapped(text, is_item=is_item)
    return ("\n  " if is_item else "\n").join([f"- {lines[0]}" if is_item else lines[0], *lines[1:]])


def _wrapped(text: str, *, is_item: bool) -> Sequence[str]:
    # A word is never broken: in Markdown that might part a backslash from what it escapes. Another may be added.
    width = WIDTH - 1 - 2 * is_item
    return wrap(text.strip(), width, break_long_words=False, break_on_hyphens=False) or [""]


def _protected(line: str) -> str:
    found = _STARTS.match(line)
    if found is None:
        return line
    place = found.end("number") if found["number"] else 0
    return f"{line[:place]}\\{line[place:]}"
