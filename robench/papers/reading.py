"""Papers' tables by their names, from a results folder: the reports behind them, one per suite, and the tables."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from robench.comparison.compare import compare_column
from robench.comparison.evidence import Difference
from robench.comparison.many_to_one import error_over_examples
from robench.core.checkpoint import Checkpoint, entry_name
from robench.core.errors import IncomparableError, UsageError
from robench.core.protocols import Store
from robench.core.records import Manifest
from robench.core.report import Report
from robench.core.suite import Column, Suite
from robench.costs.stored import StoredCost
from robench.declare import find_datasets, find_suite, load_published, published_tables, read_registries
from robench.declare.printed import PublishedTable
from robench.papers.basis import Authors, Basis, authors_of
from robench.papers.table import PaperTable, table_of
from robench.papers.twins import TwinTable, twins_of
from robench.reports import needs, over_seeds
from robench.reports.build import ModelResults, report_of_store
from robench.reports.build import measured as results_of
from robench.reports.results import Stored


def models_by_suite(tables: Iterable[PublishedTable]) -> dict[str, set[str]]:
    """Return the models of the tables' cells and twins, by the suite that measures them."""
    models: dict[str, set[str]] = {}
    for table in tables:
        for cell in table.cells:
            if cell.missing is None and cell.suite is not None and cell.model is not None:
                models.setdefault(cell.suite, set()).add(cell.model)
            if cell.twin is not None:
                models.setdefault(cell.twin.suite, set()).add(cell.twin.model)
    return models


def measured_models(
    models: Mapping[str, Collection[str]],
    suites: Mapping[str, Suite],
    manifests: Sequence[Manifest],
    checkpoints: Mapping[str, Checkpoint],
) -> dict[str, list[str]]:
    """Return the measured checkpoints of ``models_by_suite``, seeds and weights of other registries included."""
    measured = {}
    for name, wanted in sorted(models.items()):
        is_needed = needs(suites[name], seed=suites[name].seed)
        found = {each.shard.checkpoint for each in manifests if is_needed(each.shard)}
        if rows := [model for model in sorted(found) if _entry_of(model, checkpoints) in wanted]:
            measured[name] = rows
    return measured


def reports_for(
    measured: Mapping[str, Sequence[str]],
    suites: Mapping[str, Suite],
    store: Store,
    checkpoints: Mapping[str, Checkpoint],
    authors: Authors,
    limit: int | None = None,
) -> dict[str, Report]:
    """Return a report for each suite with measured models; its rows have the names of entries.

    An entry has a row of its authors' weights, without ``seeds``, before that of the mean over its other trainings,
    whose ``seeds`` names them. Either may be missing.
    """
    entry_of = partial(_entry_of, checkpoints=checkpoints)
    return {
        name: _by_entry(report_of_store(suites[name], store, models=rows, limit=limit), entry_of, authors)
        for name, rows in measured.items()
    }


def _by_entry(report: Report, entry_of: Callable[[str], str], authors: Authors) -> Report:
    entries = {each.checkpoint: entry for entry, each in authors.weights.items()}
    theirs = {row.model: row for row in report.rows if row.model in entries}
    weights = {row.weights: row.model for row in theirs.values() if row.weights is not None}
    others, notes = [], dict[str, list[str]]()
    for row in report.rows:
        if row.model in authors.left_out:
            notes.setdefault(entry_of(row.model), []).append(f"{row.model} is by the authors too, and left out")
        elif row.weights in weights and row.model not in theirs:
            note = f"{row.model} has the same weights as the authors' {weights[row.weights]}, and does not count again"
            notes.setdefault(entry_of(row.model), []).append(note)
        elif row.model not in theirs:
            refused = authors.refused.get(row.model)
            others.append(row if refused is None else replace(row, notes=(*row.notes, refused)))
    trained = over_seeds(replace(report, rows=tuple(others)), entry_of)
    rows = [
        replace(row, model=entries[row.model], notes=(*row.notes, *notes.get(entries[row.model], [])))
        for row in theirs.values()
    ]
    rows += [replace(row, model=entry_of(row.model), seeds=row.seeds or (row.model,)) for row in trained.rows]
    return replace(trained, rows=tuple(rows))


def _entry_of(model: str, checkpoints: Mapping[str, Checkpoint]) -> str:
    """Return the entry that results under a name count for, which is the name's own if no registry has it."""
    declared = checkpoints.get(model) or checkpoints.get(entry_name(model))
    return entry_name(model) if declared is None else declared.entry


_NAME = re.compile(r"([a-z0-9-]+):([1-9][0-9]*)")


def find_published(names: Sequence[str]) -> list[PublishedTable]:
    """Return the printed tables named ``PAPER:NUMBER``, each once; all of every paper if no name is given.

    Raises:
        UsageError: a name is malformed.
        UnknownNameError: there is no such table.
    """
    keys = [] if names else list(published_tables())
    for name in dict.fromkeys(names):
        if (parts := _NAME.fullmatch(name)) is None:
            raise UsageError(f"a table is PAPER:NUMBER, such as rpc:1, got {name!r}; there are {existing_tables()}")
        keys.append((parts[1], int(parts[2])))
    return [load_published(paper, number) for paper, number in keys]


def existing_tables() -> str:
    """Return the names of the papers' tables, for messages."""
    numbers: dict[str, list[int]] = {}
    for paper, number in published_tables():
        numbers.setdefault(paper, []).append(number)
    return ", ".join(f"{paper}:{min(each)} to {paper}:{max(each)}" for paper, each in numbers.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements that a results folder holds of some printed tables.

    Attributes:
        suites: of the tables; ``checkpoints``: of the registries, by name.
        manifests: of all measurements of the folder; ``models``: measured checkpoints that count, by suite.
        limit: number of first examples of each condition that count; None for all.
    """

    suites: Mapping[str, Suite]
    checkpoints: Mapping[str, Checkpoint]
    manifests: Sequence[Manifest]
    authors: Authors
    models: Mapping[str, Sequence[str]]
    limit: int | None = None


def measured_of_tables(
    published: Sequence[PublishedTable], store: Store, registries: Sequence[Path], limit: int | None = None
) -> Measured:
    """Find the measurements of printed tables in a store, by headers alone.

    Raises:
        RobenchError: a registry file or suite is invalid, or a file of the store cannot be read.
    """
    models = models_by_suite(published)
    datasets = find_datasets(registries)
    suites = {name: find_suite(name, datasets) for name in sorted(models)}
    checkpoints = read_registries(registries)
    manifests = list(store.manifests())
    return Measured(
        suites=suites,
        checkpoints=checkpoints,
        manifests=manifests,
        authors=authors_of(checkpoints, manifests),
        models=measured_models(models, suites, manifests, checkpoints),
        limit=limit,
    )


def tables_of(
    published: Sequence[PublishedTable],
    measured: Measured,
    store: Store,
    registries: Sequence[Path],
    costs: Sequence[StoredCost] = (),
) -> list[PaperTable]:
    """Return the printed tables with the numbers of a store, in their order; ``registries`` are named in commands."""
    suites = {cell.suite for each in published for cell in each.cells}
    basis = _basis(measured, {name for name in suites if name is not None}, store, registries, costs)
    return [table_of(each, basis) for each in published]


def twin_tables_of(
    published: Sequence[PublishedTable], measured: Measured, store: Store, registries: Sequence[Path]
) -> list[TwinTable]:
    """Return the twins of printed tables with the numbers of a store, of the tables that have any."""
    suites = {cell.twin.suite for each in published for cell in each.cells if cell.twin is not None}
    basis = _basis(measured, suites, store, registries)
    return [twins for each in published if (twins := twins_of(each, basis)) is not None]


def _basis(
    measured: Measured,
    suites: Collection[str],
    store: Store,
    registries: Sequence[Path],
    costs: Sequence[StoredCost] = (),
) -> Basis:
    models = {name: rows for name, rows in measured.models.items() if name in suites}
    reports = reports_for(models, measured.suites, store, measured.checkpoints, measured.authors, limit=measured.limit)
    return Basis(
        reports=reports,
        suites=measured.suites,
        checkpoints=measured.checkpoints,
        of_authors=measured.authors.weights,
        registries=registries,
        differences=partial(_difference, measured, reports, store),
        errors=partial(_error, measured, reports, store),
        costs=costs,
    )


def _difference(
    measured: Measured, reports: Mapping[str, Report], store: Store, suite: str, first: str, second: str, key: str
) -> Difference | None:
    """Return the first entry's number less the second's, paired by example; None if the examples are others."""
    column, results = _column(measured, store, suite, key)
    # Of an entry with several rows the first counts, as for its number.
    rows = {row.model: row for row in reversed(reports[suite].rows)}
    one, other = results(
        next(iter(rows[each].seeds), None) or measured.authors.weights[each].checkpoint for each in (first, second)
    )
    try:
        return compare_column([one], [other], column).difference
    except IncomparableError:
        return None


def _error(
    measured: Measured, reports: Mapping[str, Report], store: Store, suite: str, first: str, second: str, key: str
) -> float | None:
    """Return the standard error over examples of the difference of two entries' means over seeds; None if unknown."""
    column, results = _column(measured, store, suite, key)
    seeds = {row.model: row.seeds for row in reports[suite].rows if row.seeds}
    return error_over_examples(results(seeds[first]), results(seeds[second]), column)


def _column(
    measured: Measured, store: Store, suite: str, key: str
) -> tuple[Column, Callable[[Iterable[str]], list[ModelResults]]]:
    """Return a column of a suite, and the function that gives the results of checkpoints by their names."""
    found = measured.suites[suite]
    stored = Stored(found, store, None, found.seed)
    column = next(each for each in found.columns if each.key == key)
    return column, lambda names: [results_of(found, stored, name, measured.limit) for name in names]
