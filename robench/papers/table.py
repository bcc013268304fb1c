"""A printed table beside what was measured: the paper's own layout, over the reports of several suites."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from robench.core.checkpoint import SEED_MARK
from robench.papers.cost import command_of, cost_of
from robench.papers.protocol import differing_fields, measured_of
from robench.papers.verdicts import PER_CENT, Evidence, Verdict, judged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from robench.core.checkpoint import Checkpoint
    from robench.core.published import PublishedCell, PublishedTable, PublishedTwin
    from robench.core.report import Estimate, Report, Row
    from robench.core.suite import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A measured number in the unit of the printed one, or its absence.

    Attributes:
        model: checkpoint, or entry whose seeds are averaged; None where there is none.
        formula: which reading of its attention the model has, ``paper`` or ``released``; None where there is one alone.
        measured: None where it is not measured, or not finite; ``low``, ``high``: bounds of its 95 % interval, over
            training seeds where there are several, else over examples.
        num_seeds: training seeds that it is the mean of; 1 for one checkpoint, 0 where nothing is measured.
        raised: names of the flags that are raised.
    """

    unit: str
    model: str | None = None
    formula: str | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    num_seeds: int = 0
    raised: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A printed number, what was measured of it at the paper's scale, and the verdict.

    Attributes:
        difference: measured less printed, in the unit; None where nothing is measured.
        remark, inconsistent: as of ``PublishedCell``.
    """

    printed: str
    ours: Number
    verdict: Verdict
    difference: float | None = None
    remark: str | None = None
    inconsistent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinCell:
    """What was measured of a printed number's counterpart on the digits, which has no verdict.

    Attributes:
        reason: the command that measures it, where it is not measured.
    """

    ours: Number
    suite: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row: cells by column, without the columns in which nothing is printed."""

    label: str
    cells: Mapping[str, TableCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinRow:
    """A row of twins: cells by column, of those printed numbers that have one."""

    label: str
    cells: Mapping[str, TwinCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A printed table with measured numbers and verdicts; ``twins``: only rows that have any."""

    name: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    twins: tuple[TwinRow, ...]
    is_counted: bool = True

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """Every printed number, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What tables are made of beside the printed numbers.

    Attributes:
        reports: by suite, of suites of which anything is measured, seeds averaged.
        suites: every suite that a table names; ``checkpoints``: the registry.
        of_authors: models whose measured weights are the authors' own, see ``sources.authors_models``.
        registries: files that commands name beside the shipped registry.
    """

    reports: Mapping[str, Report]
    suites: Mapping[str, Suite]
    checkpoints: Mapping[str, Checkpoint]
    of_authors: Collection[str] = ()
    registries: Sequence[Path] = ()

    def found(self, suite: str, model: str, key: str) -> tuple[Row, Estimate] | None:
        """Return a model's row of a suite's report and its number in a column; None where it is not measured."""
        report = self.reports.get(suite)
        for row in () if report is None else report.rows:
            cell = row.cells.get(key)
            if row.model.partition(SEED_MARK)[0] == model and cell is not None and cell.estimate is not None:
                return row, cell.estimate
        return None

    def formula(self, model: str) -> str | None:
        """Return which reading of its attention a model has."""
        checkpoint = self.checkpoints.get(model)
        architecture = None if checkpoint is None else checkpoint.architecture
        formula: str | None = getattr(getattr(architecture, "attention", None), "formula", None)
        return formula


def table_of(published: PublishedTable, basis: Basis) -> PaperTable:
    """Return a printed table beside the numbers of reports, a pure function of both.

    Raises:
        KeyError: the basis lacks a suite or a model that the table names.
    """
    rows = []
    twins = []
    for row in published.rows:
        printed = [(cell.column, cell) for cell in row.cells if cell is not None]
        cells = {name: _cell(cell, published.runs, basis) for name, cell in printed}
        rows.append(TableRow(label=row.label, cells=cells))
        of_digits = {name: _twin(cell.twin, cell.unit, basis) for name, cell in printed if cell.twin is not None}
        twins += [TwinRow(label=row.label, cells=of_digits)] if of_digits else []
    return PaperTable(
        name=published.name,
        title=published.title,
        source=published.source,
        columns=published.columns,
        rows=tuple(rows),
        twins=tuple(twins),
        is_counted=published.is_counted,
    )


def num_measured(tables: Sequence[PaperTable]) -> tuple[int, int]:
    """Return how many printed numbers are measured at the paper's scale, and how many there are, in counted tables."""
    cells = [cell for table in tables if table.is_counted for cell in table.cells]
    return sum(cell.ours.measured is not None for cell in cells), len(cells)


def _cell(cell: PublishedCell, runs: int, basis: Basis) -> TableCell:
    nothing = Number(unit=cell.unit, model=cell.model, formula=cell.model and basis.formula(cell.model))
    if cell.missing is not None:
        return _unmeasured(cell, nothing, Verdict("no entry", cell.missing))
    assert cell.suite is not None and cell.model is not None and cell.column_key is not None  # noqa: PT018  # by schema
    found = basis.found(cell.suite, cell.model, cell.column_key)
    if found is None or not isfinite(found[1].value):
        return _unmeasured(cell, nothing, Verdict("not measured", _how_to(cell.suite, cell.model, basis)))
    row, estimate = found
    ours = _number(row, estimate, cell.model, cell.unit, basis, complement=cell.complement)
    assert ours.measured is not None  # it is finite
    evidence = Evidence(
        printed=float(cell.value),
        rounding=float(cell.rounding),
        unit=cell.unit,
        runs=runs,
        measured=ours.measured,
        of_seeds=tuple(_in_unit(value, cell.unit, cell.complement) for value in estimate.of_seeds),
        of_authors=cell.model in basis.of_authors and not row.seeds,
        differing=_differing(cell, row, estimate, basis),
        raised=ours.raised,
    )
    return TableCell(
        printed=cell.printed,
        ours=ours,
        verdict=judged(evidence),
        difference=evidence.difference,
        remark=cell.remark,
        inconsistent=cell.inconsistent,
    )


def _unmeasured(cell: PublishedCell, nothing: Number, verdict: Verdict) -> TableCell:
    return TableCell(
        printed=cell.printed, ours=nothing, verdict=verdict, remark=cell.remark, inconsistent=cell.inconsistent
    )


def _differing(cell: PublishedCell, row: Row, estimate: Estimate, basis: Basis) -> tuple[str, ...]:
    assert cell.suite is not None and cell.model is not None  # noqa: PT018  # by schema
    suite = basis.suites[cell.suite]
    column = next(each for each in suite.columns if each.key == cell.column_key)
    measured = measured_of(
        suite, column, basis.checkpoints[cell.model], num_examples=estimate.num_examples, limit=row.limit
    )
    return differing_fields(cell, measured, of_authors=cell.model in basis.of_authors and not row.seeds)


def _twin(twin: PublishedTwin, unit: str, basis: Basis) -> TwinCell:
    found = basis.found(twin.suite, twin.model, twin.column_key)
    if found is None or not isfinite(found[1].value):
        nothing = Number(unit=unit, model=twin.model, formula=basis.formula(twin.model))
        return TwinCell(ours=nothing, suite=twin.suite, reason=_how_to(twin.suite, twin.model, basis))
    row, estimate = found
    return TwinCell(ours=_number(row, estimate, twin.model, unit, basis, complement=twin.complement), suite=twin.suite)


def _number(row: Row, estimate: Estimate, model: str, unit: str, basis: Basis, *, complement: bool) -> Number:
    bounds = [
        _in_unit(bound, unit, complement) if bound is not None and isfinite(bound) else None
        for bound in (estimate.low, estimate.high)
    ]
    low, high = reversed(bounds) if complement else bounds
    return Number(
        unit=unit,
        model=model,
        formula=basis.formula(model),
        measured=_in_unit(estimate.value, unit, complement),
        low=low,
        high=high,
        num_seeds=len(row.seeds) or 1,
        raised=tuple(flag.name for flag in row.raised),
    )


def _in_unit(value: float, unit: str, complement: bool) -> float:
    value = 1 - value if complement else value
    return 100 * value if unit == PER_CENT else value


def _how_to(suite: str, model: str, basis: Basis) -> str:
    """Return the command that measures a model under a suite, and what that takes."""
    num_seeds = sum(each.seed_of == model for each in basis.checkpoints.values())
    command = command_of(suite, model, all_seeds=num_seeds > 0, registries=basis.registries)
    return f"{command}, {cost_of(basis.suites[suite], 1 + num_seeds)}"
