"""Printed tables beside measured numbers: the paper's layout over the reports of several suites."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import ClassVar

from robench.comparison.spread import Seeds
from robench.core.rendered import PLAIN_STYLE, Rendered, Style
from robench.declare.printed import PublishedCell, PublishedTable, Reading
from robench.papers.basis import READINGS, Basis, Number
from robench.papers.claims import JudgedClaim, judged_claims
from robench.papers.counts import judged_cost
from robench.papers.protocol import differing_fields, measured_of
from robench.papers.verdicts import UNJUDGED, Verdict, evidence_on, judged


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """Printed number, the number measured at the paper's scale, their difference in the unit, and the verdict."""

    printed: str
    ours: Number
    verdict: Verdict
    difference: float | None = None
    remark: str | None = None
    inconsistent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """Row of printed numbers by column; columns without one are left out."""

    label: str
    cells: Mapping[str, TableCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable(Rendered):
    """Printed table with measured numbers and verdicts.

    Attributes:
        num_within_rounding: number of printed gains that rounding alone may have made, left out of ``claims``.
        no_claims: why the table claims nothing; None if it does.
        measured_with: releases and kinds of device behind the numbers, by suite.
        command: command that measures the missing numbers.
        hours: how long that takes, such as ``training 210-340 h``, by label of a row or name of a column that is a
            model; ``hours_are``: a clause about them.
    """

    renderers: ClassVar[str] = "robench.papers:FORMATS"

    name: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    is_counted: bool = True
    claims: tuple[JudgedClaim, ...] = ()
    num_within_rounding: int = 0
    no_claims: str | None = None
    suites: tuple[str, ...] = ()
    measured_with: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    command: str = ""
    hours: Mapping[str, str] = field(default_factory=dict)
    hours_are: str = ""
    style: Style = PLAIN_STYLE

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """Printed numbers, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells.values())


def table_of(published: PublishedTable, basis: Basis) -> PaperTable:
    """Combine a printed table with the numbers of reports.

    Raises:
        KeyError: a suite or model of the table is not in the basis.
    """
    rows = []
    numbers: dict[tuple[str, str, Reading | None], tuple[Number, Verdict]] = {}
    for row in published.rows:
        present = [cell for cell in row.cells if cell is not None]
        read: dict[str, dict[Reading | None, TableCell]] = {
            cell.column: {by: _read(published, each, by, basis) for by, each in cell.as_read}
            for cell in present
            if not cell.is_mean
        }
        parts = {column: _chosen(each) for column, each in read.items()}
        read |= {cell.column: {None: _mean(published, cell, parts, basis)} for cell in present if cell.is_mean}
        cells = {cell.column: _chosen(read[cell.column]) for cell in present}
        for column, each in read.items():
            numbers |= {(row.label, column, by): (cell.ours, cell.verdict) for by, cell in each.items()}
        rows.append(TableRow(label=row.label, cells=cells))
    suites = sorted({cell.suite for cell in published.cells if cell.suite is not None})
    return PaperTable(
        name=published.name,
        title=published.title,
        source=published.source,
        columns=published.columns,
        rows=tuple(rows),
        is_counted=published.is_counted,
        claims=judged_claims(published, numbers, basis),
        num_within_rounding=sum(claim.is_within_rounding for claim in published.claims),
        no_claims=published.no_claims,
        measured_with={name: basis.reports[name].provenance for name in suites if name in basis.reports},
        suites=tuple(suites),
        command=reproducing(published.name, basis.registries),
    )


def reproducing(name: str, registries: Sequence[Path] = ()) -> str:
    """Return the command that measures the numbers of a table; ``registries`` are further registry files."""
    return shlex.join(
        ["robench", "reproduce", name, *(word for path in registries for word in ("--registry", str(path)))]
    )


def num_measured(tables: Sequence[PaperTable]) -> tuple[int, int]:
    """Return the numbers of measured and of all printed numbers in counted tables."""
    cells = [cell for table in tables if table.is_counted for cell in table.cells]
    return sum(cell.ours.measured is not None for cell in cells), len(cells)


def _chosen(read: Mapping[Reading | None, TableCell]) -> TableCell:
    """Return a cell in the reading that counts: the authors' code, unless only the text can be judged.

    The choice does not look at agreement, and the reason names the verdict on the other reading.
    """
    chosen = min(read.values(), key=lambda each: UNJUDGED.get(each.verdict.name, 0))
    others = [f"by the {READINGS[by]}: {each.verdict.title}" for by, each in read.items() if by and each is not chosen]
    return replace(chosen, verdict=replace(chosen.verdict, reason="; ".join([chosen.verdict.reason, *others])))


def _read(published: PublishedTable, cell: PublishedCell, by: Reading | None, basis: Basis) -> TableCell:
    """Return a cell in one reading of its protocol."""
    cell_with = partial(TableCell, printed=cell.printed, remark=cell.remark, inconsistent=cell.inconsistent)
    if cell.missing is not None:
        nothing = Number(unit=cell.unit, model=cell.model, formula=cell.model and basis.formula(cell.model))
        return cell_with(ours=nothing, verdict=Verdict("no entry", cell.missing))
    if cell.cost is not None:
        value, verdict = judged_cost(cell, cell.cost, basis.counts)
        formula = cell.model and basis.formula(cell.model)
        counted = Number(unit=cell.unit, model=cell.model, formula=formula, measured=value)
        difference = None if value is None else value - float(cell.value)
        return cell_with(ours=counted, verdict=verdict, difference=difference)
    assert cell.suite is not None and cell.model is not None and cell.column_key is not None  # noqa: PT018  # by schema
    ours = basis.number(cell.suite, cell.model, cell.column_key, cell.unit, complement=cell.complement)
    found = basis.found(cell.suite, cell.model, cell.column_key)
    if ours.measured is None or found is None:
        return cell_with(ours=ours, verdict=Verdict("not measured", basis.how_to(published.name, cell.model)))
    row, estimate = found
    measured = measured_of(
        basis.suites[cell.suite],
        basis.column(cell.suite, cell.column_key),
        basis.checkpoints[cell.model],
        checkpoints=basis.checkpoints,
        num_examples=estimate.num_examples,
        limit=row.limit,
    )
    evidence = evidence_on(
        published,
        cell,
        ours.measured,
        ours.seeds,
        differing_fields(cell, measured, of_authors=ours.of_authors is not None),
        of_authors=ours.of_authors,
        raised=ours.raised,
        is_audited=ours.is_audited,
    )
    verdict = judged(evidence)
    if by is not None:
        verdict = replace(verdict, reason=f"by the {READINGS[by]}: {verdict.reason}")
    return cell_with(ours=ours, verdict=verdict, difference=evidence.difference)


def _mean(published: PublishedTable, cell: PublishedCell, parts: Mapping[str, TableCell], basis: Basis) -> TableCell:
    """Return a printed mean beside the mean of its row's measured numbers, seed by seed where all have as many."""
    found = [each.ours for each in parts.values()]
    values = [each.measured for each in found if each.measured is not None]
    cell_with = partial(TableCell, printed=cell.printed, remark=cell.remark, inconsistent=cell.inconsistent)
    if len(values) < len(found):
        lacking = ", ".join(column for column, each in parts.items() if each.ours.measured is None)
        reason = f"{basis.how_to(published.name, cell.row)}; it is a mean, and {lacking} not measured"
        return cell_with(ours=Number(unit=cell.unit), verdict=Verdict("not measured", reason))
    by_authors = [each.of_authors for each in found if each.of_authors is not None]
    if 0 < len(by_authors) < len(found):
        reason = "some of the numbers that it is the mean of are by authors' weights, and others are not"
        return cell_with(ours=Number(unit=cell.unit, measured=fmean(values)), verdict=Verdict("other protocol", reason))
    is_by_seed = len({len(each.seeds) for each in found}) == 1
    by_seed = map(fmean, zip(*(each.seeds.values for each in found), strict=True)) if is_by_seed else ()
    ours = Number(
        unit=cell.unit,
        measured=fmean(values),
        num_seeds=min(each.num_seeds for each in found),
        seeds=Seeds(tuple(by_seed), min(each.seeds.step for each in found) / len(found)),
        of_authors=" and ".join(dict.fromkeys(by_authors)) or None,
        raised=tuple(dict.fromkeys(name for each in found for name in each.raised)),
        is_audited=all(each.is_audited for each in found),
    )
    differing = [
        f"{column}: {each.verdict.reason}" for column, each in parts.items() if each.verdict.name == "other protocol"
    ]
    known = {"of_authors": ours.of_authors, "raised": ours.raised, "is_audited": ours.is_audited}
    evidence = evidence_on(published, cell, fmean(values), ours.seeds, tuple(differing), **known)
    return cell_with(ours=ours, verdict=judged(evidence), difference=evidence.difference)
