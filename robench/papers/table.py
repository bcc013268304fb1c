"""Printed tables beside measured numbers: the paper's layout over the reports of several suites."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from robench.core.checkpoint import entry_name
from robench.core.rendered import Rendered
from robench.papers.cost import command_of, cost_of
from robench.papers.protocol import differing_fields, measured_of
from robench.papers.verdicts import PER_CENT, Evidence, Verdict, judged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from robench.core.checkpoint import Checkpoint
    from robench.core.report import Estimate, Report, Row
    from robench.core.suite import Suite
    from robench.declare.printed import PublishedCell, PublishedTable, PublishedTwin


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Measured number in the unit of the printed one, if there is one.

    Attributes:
        model: checkpoint, or entry whose seeds are averaged; None if there is none.
        formula: reading of the model's attention, ``paper`` or ``released``; None if there is only one.
        measured: the number; None if it is not measured, or not finite.
        low, high: bounds of its 95 % interval, over training seeds if there are several, else over examples.
        num_seeds: number of training seeds in the mean; 1 for one checkpoint, 0 if nothing is measured.
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
    """Printed number, the number measured at the paper's scale, and the verdict.

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
    """Measured number of a printed number's counterpart on small data, without verdict.

    Attributes:
        reason: command that measures it, if it is not measured.
    """

    ours: Number
    suite: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """Row of cells by column; columns in which nothing is printed are left out."""

    label: str
    cells: Mapping[str, TableCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinRow:
    """Row of twins by column, for the printed numbers that have one."""

    label: str
    cells: Mapping[str, TwinCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable(Rendered):
    """Printed table with measured numbers and verdicts."""

    renderers: ClassVar[str] = "robench.papers:FORMATS"

    name: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    twins: tuple[TwinRow, ...]
    twin_data: tuple[str, ...] = ()
    is_counted: bool = True

    @property
    def twins_are(self) -> str:
        """Heading of the twins."""
        trained_on = "; ".join(self.twin_data) or "small data"
        return f"twins trained on {trained_on}: other sizes and budgets; they neither support nor refute the paper"

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """Printed numbers, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Reports and declarations behind tables.

    Attributes:
        reports: reports by suite, with means over seeds; suites without results are left out.
        of_authors: models with the authors' own weights; see ``sources.authors_models``.
    """

    reports: Mapping[str, Report]
    suites: Mapping[str, Suite]
    checkpoints: Mapping[str, Checkpoint]
    of_authors: Collection[str] = ()
    registries: Sequence[Path] = ()

    def found(self, suite: str, model: str, key: str) -> tuple[Row, Estimate] | None:
        """Return a model's row of a suite's report and its number in a column; None if it is not measured."""
        report = self.reports.get(suite)
        for row in () if report is None else report.rows:
            cell = row.cells.get(key)
            if entry_name(row.model) == model and cell is not None and cell.estimate is not None:
                return row, cell.estimate
        return None

    def formula(self, model: str) -> str | None:
        """Return the reading of a model's attention; None if there is only one."""
        checkpoint = self.checkpoints.get(model)
        architecture = None if checkpoint is None else checkpoint.architecture
        formula: str | None = getattr(getattr(architecture, "attention", None), "formula", None)
        return formula


def table_of(published: PublishedTable, basis: Basis) -> PaperTable:
    """Combine a printed table with the numbers of reports; its suites and models are in the basis."""
    rows = []
    twins = []
    for row in published.rows:
        printed = [(cell.column, cell) for cell in row.cells if cell is not None]
        cells = {name: _cell(cell, published.runs, basis) for name, cell in printed}
        rows.append(TableRow(label=row.label, cells=cells))
        of_row = {name: _twin(cell.twin, cell.unit, basis) for name, cell in printed if cell.twin is not None}
        twins += [TwinRow(label=row.label, cells=of_row)] if of_row else []
    return PaperTable(
        name=published.name,
        title=published.title,
        source=published.source,
        columns=published.columns,
        rows=tuple(rows),
        twins=tuple(twins),
        twin_data=_data_of(twins, basis),
        is_counted=published.is_counted,
    )


def num_measured(tables: Sequence[PaperTable]) -> tuple[int, int]:
    """Return the numbers of measured and of all printed numbers in counted tables."""
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


def _data_of(twins: Sequence[TwinRow], basis: Basis) -> tuple[str, ...]:
    models = dict.fromkeys(cell.ours.model for row in twins for cell in row.cells.values())
    entries = [basis.checkpoints[model] for model in models if model is not None and model in basis.checkpoints]
    return tuple(dict.fromkeys(each.training_data for each in entries if each.training_data))


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
    """Return the command that measures a model under a suite, and its cost."""
    num_seeds = sum(each.seed_of == model for each in basis.checkpoints.values())
    command = command_of(suite, model, all_seeds=num_seeds > 0, registries=basis.registries)
    return f"{command}, {cost_of(basis.suites[suite], 1 + num_seeds)}"
