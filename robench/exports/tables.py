"""Tables of cells of reports, one row per model and column, and of outcomes, one per model and example, as files.

Outcomes have a row for each condition and budget of a sweep too. Which records count is decided from their headers, as
in reports (``reports.selection``); outcomes are then read again, one measurement at a time.

Equal tables give equal bytes: Parquet is written part by part with fixed settings and names the release of pyarrow. In
CSV a missing value is an empty field, and no text is a formula to a spreadsheet.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.core.checkpoint import entry_name
from robench.core.columns import Outcomes
from robench.core.errors import StoreError, UsageError
from robench.core.protocols import Store
from robench.core.records import Record
from robench.core.report import Report, Row
from robench.core.suite import Column, Condition, Suite, names_of_conditions, views_of
from robench.evaluation.actions import audits_of
from robench.metrics import METRICS, unit_of
from robench.reports import over_seeds
from robench.reports.machine_readable import numbers_of
from robench.reports.results import Stored
from robench.reports.seeds import SEED_INTERVAL
from robench.reports.selection import Coverage, cover, tile
from robench.reports.table import inert_text
from robench.store.parquet import columns_of, schema_of
from robench.tasks import TASKS

# Few distinct values in many rows.
LABEL = pa.dictionary(pa.int32(), pa.string())
# Rows that are Python objects at a time.
_ROWS_AT_ONCE = 10_000

Write = Callable[["Path", pa.Schema, Iterable[pa.Table]], int]


def labels(texts: Sequence[str | None]) -> pa.DictionaryArray:
    """Return a column of few distinct texts; None is missing."""
    return pa.array(texts, pa.string()).dictionary_encode()


def write_parquet(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
    """Write the parts of a table, each as row groups of its own, and return the number of rows."""
    num_rows = 0
    dictionaries = [field.name for field in schema if field.type == LABEL]
    # Opened here, since pyarrow takes no name that is not Unicode.
    with (
        path.open("wb") as file,
        pq.ParquetWriter(
            file,
            schema,
            version="2.6",
            compression="zstd",
            use_dictionary=dictionaries,
            write_statistics=True,
            # Readers that know Arrow would otherwise get categories where others get texts.
            store_schema=False,
            write_page_checksum=True,
        ) as writer,
    ):
        for part in parts:
            writer.write_table(part)
            num_rows += part.num_rows
    return num_rows


def write_csv(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
    """Write the parts of a table below one header, and return the number of rows.

    Numbers have as many digits as distinguish them; booleans are ``true`` and ``false``.
    """
    num_rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.names)
        for part in parts:
            for start in range(0, part.num_rows, _ROWS_AT_ONCE):
                columns = [column.to_pylist() for column in part.slice(start, _ROWS_AT_ONCE).columns]
                writer.writerows([_field(value) for value in row] for row in zip(*columns, strict=True))
            num_rows += part.num_rows
    return num_rows


FORMATS: Mapping[str, Write] = {"parquet": write_parquet, "csv": write_csv}


def _field(value: str | float | None) -> str | float | None:
    if isinstance(value, str):
        return inert_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


CELLS = pa.schema(
    [
        ("suite", LABEL),
        ("suite_version", pa.int64()),
        ("suite_seed", pa.int64()),
        ("model", LABEL),
        ("entry", LABEL),
        ("statistic", LABEL),
        ("training_seed", pa.int64()),
        ("num_seeds", pa.int64()),
        ("column", LABEL),
        ("metric", LABEL),
        ("unit", LABEL),
        ("conditions", LABEL),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("interval", LABEL),
        ("num_examples", pa.int64()),
        ("missing", pa.int64()),
        ("limit", pa.int64()),
        ("all_examples", pa.bool_()),
        ("batch_size", pa.int64()),
        ("is_coupled", pa.bool_()),
        ("num_flags", pa.int64()),
        ("flags", pa.string()),
    ]
)
CHECKPOINT, MEAN = "checkpoint", "mean over seeds"


def cells_of(suite: Suite, report: Report, training_seeds: Mapping[str, int], *, all_seeds: bool) -> pa.Table:
    """Return the cells of a report of checkpoints, a row per model and column.

    ``all_seeds`` adds a row for each mean over the training seeds of an entry.
    """
    rows = [(row, CHECKPOINT) for row in report.rows]
    if all_seeds:
        rows += [(row, MEAN) for row in over_seeds(report).rows if row.seeds]
    listed = [
        _cell(suite, report, row, column, statistic, training_seeds)
        for row, statistic in rows
        for column in report.columns
    ]
    return pa.Table.from_pylist(listed, schema=CELLS)


def _cell(
    suite: Suite, report: Report, row: Row, column: Column, statistic: str, training_seeds: Mapping[str, int]
) -> dict[str, Any]:
    cell, metric, read = row.cells[column.key], METRICS[column.metric], names_of_conditions(suite, column)
    of_seeds = statistic == MEAN
    # A name that was asked for and has no results may be no Unicode.
    model = row.model.encode("utf-8", "backslashreplace").decode()
    has_interval = cell.estimate is not None and cell.estimate.low is not None
    return {
        "suite": report.suite,
        "suite_version": report.version,
        "suite_seed": report.seed,
        "model": model,
        "entry": entry_name(model),
        "statistic": statistic,
        "training_seed": None if of_seeds else training_seeds.get(row.model),
        "num_seeds": len(row.seeds) or 1,
        "column": column.key,
        "metric": column.metric,
        "unit": unit_of(column),
        "conditions": "+".join(column.conditions),
        **dict(zip(("value", "low", "high"), numbers_of(cell), strict=True)),
        "interval": (SEED_INTERVAL if of_seeds else metric.interval) if has_interval else None,
        "num_examples": cell.num_examples,
        "missing": cell.missing,
        "limit": row.limit,
        "all_examples": row.all_examples,
        "batch_size": suite.largest_batch_of(each for each in suite.conditions if each.name in read),
        "is_coupled": row.batch_size is not None,
        "num_flags": None if row.flags is None else len(row.raised),
        "flags": None if row.flags is None else ", ".join(flag.name for flag in row.raised),
    }


_LABELS = pa.schema(
    [
        ("suite", LABEL),
        ("suite_version", pa.int64()),
        ("suite_seed", pa.int64()),
        ("model", LABEL),
        ("entry", LABEL),
        ("training_seed", pa.int64()),
        ("dataset", LABEL),
        ("condition", LABEL),
        ("budget", LABEL),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCondition:
    """Measured examples of one condition of a suite by one model.

    Attributes:
        coverage: the records that count, without their outcomes; there is at least one.
        is_audit: whether it is an audit of the model, which no row is about.
    """

    suite: Suite
    seed: int
    model: str
    condition: Condition
    coverage: Coverage
    is_audit: bool = False


def measured_by(suite: Suite, store: Store, report: Report, *, limit: int | None) -> list[MeasuredCondition]:
    """Return all that is measured of a report's models, in the order of rows and conditions.

    Outcomes are not kept in memory.
    """
    results = Stored(suite, store, None, report.seed)
    found = []
    for model in (row.model for row in report.rows):
        described = results.described(model)
        for conditions, is_audit in ((suite.conditions, False), (audits_of(suite), True)):
            coverages = cover(conditions, described, dataset_sizes=results.sizes, limit=limit)
            found += [
                MeasuredCondition(
                    suite=suite,
                    seed=report.seed,
                    model=model,
                    condition=condition,
                    coverage=coverages[condition.name],
                    is_audit=is_audit,
                )
                for condition in conditions
                if coverages[condition.name].records
            ]
    return found


def schema_for(suites: Sequence[Suite]) -> pa.Schema:
    """Return the columns of the outcomes of suites; raises UsageError if two tasks give a column different types."""
    fields = {field.name: field for field in _LABELS}
    for task in dict.fromkeys(suite.task for suite in suites):
        for field in schema_of(TASKS[task].outcome):
            known = fields.setdefault(field.name, field.with_nullable(True))
            if known.type != field.type:
                raise UsageError(
                    f"outcomes of {task} have a column {field.name!r} of {field.type}, and those of another suite of "
                    f"{known.type}; export the suites into folders of their own"
                )
    return pa.schema(list(fields.values()))


def outcomes_of(
    measured: MeasuredCondition, store: Store, schema: pa.Schema, training_seeds: Mapping[str, int]
) -> Iterator[pa.Table]:
    """Yield the outcomes of a condition in dataset order, as one table; none if they are gone by now.

    Raises:
        StoreError: a file cannot be read, or a text is not Unicode.
    """
    coverage, wanted = measured.coverage, measured.coverage.num_wanted or 0
    kept = {record.shard.key for record in coverage.records}
    records = [each for each in store.records_of([coverage.records[0].shard.measurement_key]) if each.shard.key in kept]
    try:
        parts = [_rows(measured, record, wanted, schema, training_seeds) for record in tile(records, wanted)]
    except (pa.ArrowException, UnicodeError) as error:
        raise StoreError(f"{measured.model} / {measured.condition.name} cannot be exported: {error}") from error
    if parts:
        yield pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _rows(
    measured: MeasuredCondition, record: Record, wanted: int, schema: pa.Schema, training_seeds: Mapping[str, int]
) -> pa.Table:
    shard = record.shard
    # Outcomes of one example, at each budget of a sweep, are adjacent.
    each = len(record.outcomes) // (shard.stop - shard.start)
    outcomes = record.outcomes[: (min(shard.stop, wanted) - shard.start) * each]
    count, suite, columns = len(outcomes), measured.suite, columns_of(outcomes)
    texts = {
        "suite": suite.name,
        "model": measured.model,
        "entry": entry_name(measured.model),
        "dataset": shard.dataset.name,
        "condition": measured.condition.name,
    }
    numbers = {
        "suite_version": suite.version,
        "suite_seed": measured.seed,
        "training_seed": training_seeds.get(measured.model),
    }
    known = {name: columns.column(name) for name in columns.column_names}
    known |= {name: labels([text] * count) for name, text in texts.items()}
    known |= {name: pa.array([number] * count, pa.int64()) for name, number in numbers.items()}
    known["budget"] = labels(_budgets(measured.condition, outcomes))
    arrays = [known.get(field.name, pa.nulls(count, field.type)) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _budgets(condition: Condition, outcomes: Outcomes) -> list[str | None]:
    """Return the budget of each row as its suite declares it."""
    epsilons = outcomes.values("epsilon")
    if epsilons is None:
        return [condition.budget] * len(outcomes)
    threats = {view.epsilon: view.attack.threat_model for view in views_of(condition)}
    texts = {name: threat.epsilon_text for name, threat in threats.items() if threat is not None}
    return [texts.get(name, name) for name in epsilons.array.tolist()]
