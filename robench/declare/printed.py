"""Printed tables of papers: each cell with its protocol and the suite column that measures the same number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

Better = Literal["higher", "lower", "neither"]
Reading = Literal["code", "text"]
# Fields of a protocol about the recipe; a length alone does not state one.
RECIPE = frozenset({"training", "training_batch_size", "learning_rate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTwin:
    """Counterpart of a printed number on a small dataset: a number of the same kind, not the same number.

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
        """Return the key of the suite's column."""
        return f"{self.condition}/{self.metric}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedReading:
    """Reading of a printed number's protocol, by the authors' code or by their text, where these differ.

    Attributes:
        by: whether the code or the text is repeated.
        condition: of the suite.
        protocol: the whole protocol in this reading.
        inferred: as of ``PublishedCell``, in this reading.
    """

    by: Reading
    condition: str
    protocol: Mapping[str, str]
    inferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedCost:
    """Kind of a printed cost.

    Attributes:
        kind: counts are the same on every machine; seconds and bytes are those of a device.
        rule: rule of ``robench.costs`` by which multiply-adds are counted.
        mode: whether the pass is one of inference or of training.
        unit: unit that the number must have, where another one is printed.
    """

    kind: Literal["parameters", "multiply-adds", "seconds", "bytes"]
    rule: str | None = None
    mode: Literal["inference", "training"] = "inference"
    unit: str | None = None

    @property
    def is_count(self) -> bool:
        """Return whether the number depends on no device."""
        return self.kind in ("parameters", "multiply-adds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCell:
    """Printed number of a paper.

    Attributes:
        row, column: label of the row, name of the column.
        printed: the number as printed, without its unit.
        unit: ``%`` if 100 means a proportion or a ratio of 1; else empty.
        model: checkpoint of the registry; None if the number refers to no model.
        suite, condition, metric: the column ``condition/metric`` of a suite; of a metric over corruptions the condition
            is the family, ``imagenet-c``, or the family and the type, ``imagenet-c/snow``.
        complement: the printed number is 1 minus the metric.
        missing: what robench lacks to measure the number, a clause; None where it lacks nothing. Only then are model,
            suite, condition and metric all there, or the cost.
        cost: kind of the cost that is printed, in place of suite, condition and metric; None for all other numbers.
        is_mean: whether it is the mean of the other numbers of its row, and so of several models.
        protocol: the measuring protocol stated in the paper, with the names of robench's fields; omits what the paper
            leaves out.
        remark: details of the printed text, or oddities of the number; None if there are none.
        inconsistent: contradiction with other printed numbers or text; None without one.
        better: whether larger or smaller numbers are better; ``neither`` for sizes and settings.
        readings: both readings, or the only one that is measured, where code and text differ; else empty.
        inferred: fields of the protocol that the paper does not print, and that the condition has by inference.
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
    cost: PrintedCost | None = None
    is_mean: bool = False
    protocol: Mapping[str, str] = field(default_factory=dict)
    twin: PublishedTwin | None = None
    remark: str | None = None
    inconsistent: str | None = None
    better: Better = "higher"
    readings: tuple[PublishedReading, ...] = ()
    inferred: tuple[str, ...] = ()

    @property
    def column_key(self) -> str | None:
        """Return the key of the suite's column; None if the number cannot be measured, or is a cost or a mean."""
        is_of_suite = self.missing is None and self.cost is None and not self.is_mean
        return f"{self.condition}/{self.metric}" if is_of_suite else None

    @property
    def is_recipe_stated(self) -> bool:
        """Return whether the paper states how the model was trained, by itself or by a reference."""
        return not RECIPE.isdisjoint(self.protocol)

    @property
    def as_read(self) -> tuple[tuple[Reading | None, PublishedCell], ...]:
        """Return the cell with the condition and protocol of each reading; itself, and None, where there is one."""
        if not self.readings:
            return ((None, self),)
        return tuple(
            (each.by, replace(self, condition=each.condition, protocol=each.protocol, inferred=each.inferred))
            for each in self.readings
        )

    @property
    def value(self) -> Fraction:
        """Return the number itself, in its unit.

        Raises:
            ValueError: it is not a number, as in tables that are not counted.
        """
        return Fraction(self.printed)

    @property
    def rounding(self) -> Fraction:
        """Return half a unit of the last printed digit, the largest possible rounding error."""
        decimals = self.printed.partition(".")[2]
        return Fraction(1, 2 * 10 ** len(decimals))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedClaim:
    """Printed gain of one model over its baseline.

    Attributes:
        cell: number of the model; ``baseline``: number of its baseline in the same column, or in the same row where
            models are columns.
        model: label of the model's row, or name of its column.
        baseline_model: the same of the baseline.
        place: the other of both: name of the column, or label of the row.
    """

    cell: PublishedCell
    baseline: PublishedCell
    model: str
    baseline_model: str
    place: str

    @property
    def gain(self) -> Fraction:
        """Return the printed gain in the unit of both, negative where the baseline is better."""
        difference = self.cell.value - self.baseline.value
        return -difference if self.cell.better == "lower" else difference

    @property
    def rounding(self) -> Fraction:
        """Return the largest possible rounding error of the gain."""
        return self.cell.rounding + self.baseline.rounding

    @property
    def is_within_rounding(self) -> bool:
        """Return whether rounding alone may have made the gain."""
        return abs(self.gain) <= self.rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """Row of a printed table.

    Attributes:
        label: the row's name, as printed if that is unique.
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
    """Printed table of a paper.

    Attributes:
        paper: short name of the paper.
        number: of the table in that paper.
        source: authors, year and where to find the paper.
        text: name of the file that holds the paper's text.
        caption_line: number of the line there at which the caption begins, from 1.
        runs: number of training runs averaged in a printed number; 1 if the paper does not say.
        columns: names of the columns, in the paper's order.
        is_counted: whether the cells are results, which count among the papers' numbers.
        baselines: by label of a row, or by name of a column where models are columns: label or name of its baseline.
        no_claims: why the table claims no gain; None if it claims some.
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
    baselines: Mapping[str, str] = field(default_factory=dict)
    no_claims: str | None = None

    @property
    def has_models_in_columns(self) -> bool:
        """Return whether baselines are those of columns."""
        return bool(self.baselines) and self.baselines.keys() <= set(self.columns)

    @property
    def claims(self) -> tuple[PrintedClaim, ...]:
        """Return every printed gain over a baseline, those within rounding too, model by model."""
        is_by_column = self.has_models_in_columns
        places = [row.label for row in self.rows] if is_by_column else self.columns
        found = []
        for model, baseline in self.baselines.items():
            for place in places:
                pair = [
                    self.cell(place, name) if is_by_column else self.cell(name, place) for name in (model, baseline)
                ]
                if pair[0] is not None and pair[1] is not None and pair[0].better != "neither":
                    claim = PrintedClaim(
                        cell=pair[0], baseline=pair[1], model=model, baseline_model=baseline, place=place
                    )
                    found.append(claim)
        return tuple(found)

    def gains_of(self, cell: PublishedCell) -> tuple[Fraction, ...]:
        """Return the claimed gain of a cell, or all claimed gains over it if it is a baseline."""
        # A reading of a cell is another value in the same place.
        place, claims = (cell.row, cell.column), self.claims
        own = [each for each in claims if (each.cell.row, each.cell.column) == place]
        over = [each for each in claims if (each.baseline.row, each.baseline.column) == place]
        gains = [[each.gain for each in found if not each.is_within_rounding] for found in (own, over)]
        return tuple(gains[0] or gains[1])

    def num_printed_of(self, cell: PublishedCell) -> int:
        """Return the number of printed numbers of a cell's model, in its row or its column."""
        if self.has_models_in_columns:
            return sum(each.column == cell.column for each in self.cells)
        return sum(each.row == cell.row for each in self.cells)

    @property
    def name(self) -> str:
        """Return the name of the table, such as ``paper:1``."""
        return f"{self.paper}:{self.number}"

    @property
    def cells(self) -> tuple[PublishedCell, ...]:
        """Return every printed number, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells if cell is not None)

    def cell(self, row: str, column: str) -> PublishedCell | None:
        """Return the cell of a row and a column, or None if nothing is printed.

        Raises:
            KeyError: there is no such row or column.
        """
        for each in self.rows:
            if each.label == row and column in self.columns:
                return each.cells[self.columns.index(column)]
        raise KeyError((row, column))
