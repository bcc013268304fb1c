"""Tables of papers as printed: each cell with the words of its protocol and what measures the same number here."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTwin:
    """Counterpart of a printed number on a small dataset: a number of the same kind, never the same number.

    Attributes:
        model, suite, condition, metric, complement: as of ``PublishedCell``.
    """

    model: str
    suite: str
    condition: str
    metric: str
    complement: bool = False

    @property
    def column_key(self) -> str:
        """Key of the suite's column."""
        return f"{self.condition}/{self.metric}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCell:
    """One printed number.

    Attributes:
        row, column: label of the row, name of the column.
        printed: the number as it is printed, without its unit.
        unit: ``%`` where 100 stands for a proportion or a ratio of 1; empty where there is none.
        model: checkpoint of the registry; None where there is none, or no model is meant.
        suite, condition, metric: the column ``condition/metric`` of a suite; of a metric over corruptions the condition
            is the family, ``imagenet-c``, or the family and the type, ``imagenet-c/snow``.
        complement: the printed number is 1 minus the metric.
        missing: what robench lacks to measure the number, a clause; None where it lacks nothing. Only then are model,
            suite, condition and metric all there.
        protocol: what the paper says of how the number was measured, named as fields of robench's declarations are;
            without what it does not say.
        remark: what does not add up, or how the text at hand prints the number; None where there is nothing to say.
    """

    row: str
    column: str
    printed: str
    unit: str
    model: str | None = None
    suite: str | None = None
    condition: str | None = None
    metric: str | None = None
    complement: bool = False
    missing: str | None = None
    protocol: Mapping[str, str] = field(default_factory=dict)
    twin: PublishedTwin | None = None
    remark: str | None = None
    inconsistent: str | None = None

    @property
    def column_key(self) -> str | None:
        """Key of the suite's column; None where the number cannot be measured."""
        return None if self.missing is not None else f"{self.condition}/{self.metric}"

    @property
    def value(self) -> Fraction:
        """The number itself, in its unit.

        Raises:
            ValueError: it is no number, as in tables that are not counted.
        """
        return Fraction(self.printed)

    @property
    def rounding(self) -> Fraction:
        """Half a unit of the last printed digit: the most by which the number may differ from what was rounded."""
        decimals = self.printed.partition(".")[2]
        return Fraction(1, 2 * 10 ** len(decimals))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A row of a printed table.

    Attributes:
        label: the row's name, as printed where that tells it from the others.
        lines: what the paper's text has in the row's place, word for word.
        line: number of the first of them, from 1.
        cells: as many as the table has columns; None where a dash or nothing is printed.
    """

    label: str
    lines: tuple[str, ...]
    line: int
    cells: tuple[PublishedCell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table of a paper as printed.

    Attributes:
        paper: short name of the paper.
        number: of the table in that paper.
        source: authors, year and where to find the paper.
        text: name of the file that holds the paper's text.
        caption_line: number of the line there at which the caption begins, from 1.
        runs: training runs that a printed number is the mean of; 1 where the paper does not say.
        columns: names of the columns, in the paper's order.
        is_counted: whether the cells are results, which count among the papers' numbers.
    """

    paper: str
    number: int
    title: str
    source: str
    text: str
    caption_line: int
    runs: int
    columns: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    is_counted: bool = True

    @property
    def name(self) -> str:
        """Name of the table, such as ``paper:1``."""
        return f"{self.paper}:{self.number}"

    @property
    def cells(self) -> tuple[PublishedCell, ...]:
        """Every printed number, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells if cell is not None)

    def cell(self, row: str, column: str) -> PublishedCell | None:
        """Return the cell of a row and a column; None where nothing is printed.

        Raises:
            KeyError: there is no such row or column.
        """
        for each in self.rows:
            if each.label == row and column in self.columns:
                return each.cells[self.columns.index(column)]
        raise KeyError((row, column))
