"""Tables of suites from records, as a pure function without model, data or accelerator.

A cell has its number once every example of its conditions is measured, and otherwise the number of missing examples.
Nothing is averaged over an incomplete set.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from robench.core.columns import Outcomes
from robench.core.errors import InapplicableError, IncompleteError, UnknownNameError, UsageError
from robench.core.protocols import Store
from robench.core.providers import releases_of
from robench.core.records import Failure, Provenance, Record
from robench.core.report import Cell, Report, Row
from robench.core.shard import EXACT_DTYPE
from robench.core.suite import Column, Suite, View, views_of
from robench.evaluation.actions import audits_of
from robench.metrics import METRICS, Readings, unit_of
from robench.reports.flags import flags_of, flags_of_certificates, is_audited_attack, notes_of_audits, tried_of
from robench.reports.notes import (
    are_coupled,
    bias_notes,
    caveats_of,
    coupled_note,
    limit_notes,
    notes_of,
    precision_note,
    provenance_of,
)
from robench.reports.results import Given, Results, Stored
from robench.reports.seeds import over_seeds
from robench.reports.selection import Coverage, cover


def build_report(
    suite: Suite,
    records: Iterable[Record],
    failures: Iterable[Failure] = (),
    *,
    models: Sequence[str] | None = None,
    limit: int | None = None,
    measurements: Mapping[str, Collection[str]] | None = None,
    seed: int | None = None,
    coupled: Collection[str] = (),
    precision: str = EXACT_DTYPE,
) -> Report:
    """Return the table of a suite, the same for any order of the records.

    Args:
        suite: the suite.
        records: any records; ones that the suite does not need only provide sizes of datasets.
        failures: likewise.
        models: rows in this order, including models without records; None for all models with results, by name.
        limit: number of first examples of each condition. Without it, models with limited runs alone, and no complete
            number, are left out.
        measurements: keys of the measurements to use, by model, under any name. None uses the names under which results
            were measured.
        seed: replaces the suite's own.
        coupled: models declared coupled by their entries, in addition to those by their records, which may be older.
        precision: number format of the passes of the models, ``core.shard.Precision``.

    Raises:
        UsageError: the limit is below 1.
        UnknownNameError: a column names an unknown metric or condition.
    """
    wanted_seed = suite.seed if seed is None else seed
    given = Given(suite, [*records, *failures], measurements, wanted_seed, precision)
    return _report(suite, given, models, limit, wanted_seed, coupled, precision)


# Of reading results that another command moves meanwhile.
_ATTEMPTS = 3


def report_of_store(
    suite: Suite,
    store: Store,
    *,
    models: Sequence[str] | None = None,
    limit: int | None = None,
    measurements: Mapping[str, Collection[str]] | None = None,
    seed: int | None = None,
    coupled: Collection[str] = (),
    average_seeds: bool = False,
    precision: str = EXACT_DTYPE,
) -> Report:
    """Return the table of a suite from a store, one model in memory at a time.

    Arguments are those of ``build_report``. A measurement belongs to the model named in its first record. With
    ``average_seeds`` the checkpoints ``NAME`` and ``NAME@SEED`` are one row, the mean over them. Where numbers are
    missing and results went meanwhile, the store is read again.

    Raises:
        StoreError: a file cannot be read, or is of a later robench; further errors are those of ``build_report``.
    """
    wanted_seed = suite.seed if seed is None else seed
    for _ in range(_ATTEMPTS):
        keys, num_lost = store.keys(), store.num_lost
        results = Stored(suite, store, measurements, wanted_seed, precision)
        report = _report(suite, results, models, limit, wanted_seed, coupled, precision)
        is_whole = bool(report.rows) and report.is_complete
        # Another command may have moved results as they were read.
        if is_whole or (keys <= store.keys() and store.num_lost == num_lost):
            break
    return over_seeds(report) if average_seeds else report


def _report(
    suite: Suite,
    results: Results,
    models: Sequence[str] | None,
    limit: int | None,
    seed: int,
    coupled: Collection[str],
    precision: str,
) -> Report:
    rows: list[Row] = []
    used: list[Provenance] = []
    limited: dict[str, int] = {}
    _check(suite, limit)
    for model in results.models() if models is None else dict.fromkeys(models):
        found = measured(suite, results, model, limit, is_coupled=model in coupled)
        if found.limited_to is not None:
            limited[model] = found.limited_to
            continue
        used += found.provenances
        used += (record.provenance for coverage in found.audits.values() for record in coverage.records)
        is_exact = precision == EXACT_DTYPE
        rows.append(
            found.row
            if is_exact
            else replace(found.row, precision=precision, notes=(precision_note(precision), *found.row.notes))
        )
    intervals = dict.fromkeys(interval for name in suite.metrics if (interval := METRICS[name].interval))
    return Report(
        suite=suite.name,
        version=suite.version,
        seed=seed,
        columns=suite.columns,
        rows=tuple(rows),
        # Suites that name their datasets need no argument.
        provenance=({} if suite.given_dataset is None else {"dataset": suite.given_dataset})
        | releases_of(*(METRICS[name] for name in suite.metrics))
        | provenance_of(used, seed, intervals),
        limited=limited,
        precision=precision,
    )


def views_by_name(suite: Suite) -> dict[str, View]:
    """Return the views of all conditions of a suite."""
    return {view.name: view for condition in suite.conditions for view in views_of(condition)}


def _check(suite: Suite, limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise UsageError(f"the limit must be at least 1 example, got {limit}; leave it out for all")
    views = views_by_name(suite)
    for column in suite.columns:
        if column.metric not in METRICS:
            raise UnknownNameError("metric", column.metric, METRICS)
        for condition in column.conditions:
            if condition not in views:
                raise UnknownNameError("condition", condition, views)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResults:
    """All that is known of one model under one suite.

    Attributes:
        coverages: stored outcomes of each condition, by its name; ``audits``: likewise.
        row: numbers, or what is missing of them, with notes and flags.
        limited_to: largest limit of the results, of a model with limited runs alone and no complete number where no
            limit was asked for; None for all others.
    """

    suite: Suite
    model: str
    coverages: Mapping[str, Coverage]
    audits: Mapping[str, Coverage]
    row: Row
    limited_to: int | None

    def cell(self, column: Column) -> Cell:
        """Return the number of a column, or how much of it is missing."""
        return self.row.cells[column.key]

    def readings(self, column: Column) -> Readings:
        """Return the outcomes that a column reads; raises IncompleteError if examples are missing."""
        return readings_of(column, views_by_name(self.suite), self.coverages)

    @property
    def notes(self) -> list[str]:
        """Notes and raised flags, each with the model's name."""
        flags = [f"{flag.name}: {flag.finding}; {flag.advice}" for flag in self.row.raised]
        return [f"{self.model}: {note}" for note in (*self.row.notes, *flags)]

    @property
    def provenances(self) -> list[Provenance]:
        """Provenance of every record but those of audits."""
        return [record.provenance for coverage in self.coverages.values() for record in coverage.records]

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprint of the data of each condition that has a record, by the condition's name."""
        return {
            name: coverage.records[0].shard.dataset.fingerprint
            for name, coverage in self.coverages.items()
            if coverage.records
        }


def measured(
    suite: Suite, results: Results, model: str, limit: int | None, *, is_coupled: bool = False
) -> ModelResults:
    """Return the results of one model; of a model without results every cell is missing.

    ``limit`` is the number of first examples that are asked for; ``is_coupled`` whether the model's entry says so.
    Errors are those of ``build_report``.
    """
    _check(suite, limit)
    found = results.of(model)
    coverages = cover(suite.conditions, found, dataset_sizes=results.sizes, limit=limit)
    # A limit is of the suite's conditions: flags are of all that was audited.
    audits = cover(audits_of(suite), found, dataset_sizes=results.sizes, limit=None)
    row = _row_of(suite, model, coverages, audits, limit, is_coupled)
    is_limited_alone = (
        limit is None
        and bool(found)
        and all(each.provenance.limit is not None for each in found)
        and not any(cell.estimate is not None for cell in row.cells.values())
    )
    return ModelResults(
        suite=suite,
        model=model,
        coverages=coverages,
        audits=audits,
        row=row,
        limited_to=max(each.provenance.limit or 0 for each in found) if is_limited_alone else None,
    )


def _row_of(
    suite: Suite,
    model: str,
    coverages: Mapping[str, Coverage],
    audits: Mapping[str, Coverage],
    limit: int | None,
    is_coupled: bool,
) -> Row:
    cells: dict[str, Cell] = {}
    reasons: dict[str, list[str]] = {}
    views = views_by_name(suite)
    columns = []
    for column in suite.columns:
        read = [views[name] for name in column.conditions]
        cells[column.key], reason = _cell_of(column, views, coverages)
        if reason:
            reasons.setdefault(reason, []).append(column.label)
        # Devices and failures apply to a whole sweep.
        columns.append(replace(column, conditions=tuple(view.condition.name for view in read)))
    without_number = limit_notes(coverages.values())
    without_number += [f"{', '.join(labels)}: {reason}" for reason, labels in reasons.items()]
    covered = [*coverages.values(), *audits.values()]
    is_coupled = is_coupled or are_coupled(covered)
    findings = notes_of(columns, {**coverages, **audits}, suite.conditions)
    shards = [record.shard for coverage in covered for record in coverage.records]
    batch_size = suite.largest_batch_of(suite.conditions) if is_coupled else None
    coupled = [] if batch_size is None else [coupled_note(batch_size)]
    return Row(
        model=model,
        cells=cells,
        limit=limit,
        all_examples=suite.all_examples,
        batch_size=batch_size,
        notes=(
            *coupled,
            *caveats_of(covered),
            *findings,
            *notes_of_audits(audits.values()),
            *bias_notes(suite.columns, cells),
            *without_number,
        ),
        flags=flags_of(
            audits.values(),
            tried_of(suite.conditions, coverages),
            flags_of_certificates(suite.conditions, coverages),
        ),
        is_audited=any(coverage.records for coverage in audits.values()),
        is_attacked=any(is_audited_attack(each) and coverages[each.name].num_in for each in suite.conditions),
        # All of a row have the same weights; older records have the digest of their file alone.
        weights=next((each.weights for each in shards if each.tensors_digest), shards[0].weights if shards else None),
        measurements=tuple(sorted({shard.measurement_key for each in coverages.values() for shard in each.shards})),
    )


def readings_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> Readings:
    """Return the outcomes that a column reads, by role; raises IncompleteError if examples are missing."""
    measured: list[Outcomes] = []
    others: dict[str, Outcomes] = {}
    corrupted: dict[str, dict[int, Outcomes]] = {}
    for name, role in column.reads:
        view = views[name]
        outcomes = coverages[view.condition.name].outcomes_at(view.epsilon)
        if role.name == "measured":
            measured.append(outcomes)
        elif role.name == "corrupted":
            corrupted.setdefault(role.corruption, {})[role.severity] = outcomes
        else:
            others[role.name] = outcomes
    return Readings(
        measured=tuple(measured),
        clean=others.get("clean"),
        negatives=others.get("negatives"),
        corrupted=corrupted,
        family=column.family,
        norm=column.norm,
        within=None if column.distance is None else float(column.distance.value),
        of_class=column.of_class,
    )


def _cell_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> tuple[Cell, str]:
    """Return the cell and, where every example is in and there is yet no number, the reason."""
    covered = [coverages[views[name].condition.name] for name in column.conditions]
    num_in = min(coverage.num_in for coverage in covered)
    missing = [coverage.missing for coverage in covered]
    known = [number for number in missing if number is not None]
    most = max(known) if len(known) == len(missing) else None
    if most != 0:
        return Cell(estimate=None, num_examples=num_in, missing=most), ""
    try:
        estimate = METRICS[column.metric].compute(readings_of(column, views, coverages))
    except IncompleteError as error:
        is_applicable = not isinstance(error, InapplicableError)
        return Cell(estimate=None, num_examples=num_in, missing=most, is_applicable=is_applicable), str(error)
    return Cell(estimate=replace(estimate, unit=unit_of(column)), num_examples=num_in, missing=most), ""
