"""Cells of reports as a table: one row per model and column of a suite, and of means over training seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types

from robench.core.checkpoint import entry_name
from robench.exports.tables import LABEL
from robench.metrics import METRICS, unit_of
from robench.reports import over_seeds
from robench.reports.seeds import SEED_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.report import Report, Row
    from robench.core.suite import Column, Suite

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
    """Return the cells of a report, a row per model and column.

    Args:
        suite: the report's.
        report: one row per checkpoint.
        training_seeds: seed of each checkpoint's training, by name, where there is one.
        all_seeds: whether to add a row for each mean over the training seeds of an entry.
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
    cell, metric = row.cells[column.key], METRICS[column.metric]
    estimate = cell.estimate
    of_seeds = statistic == MEAN
    # A name that was asked for and has no results may be no Unicode.
    model = row.model.encode("utf-8", "backslashreplace").decode()
    has_interval = estimate is not None and estimate.low is not None
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
        "value": None if estimate is None else estimate.value,
        "low": None if estimate is None else estimate.low,
        "high": None if estimate is None else estimate.high,
        "interval": (SEED_INTERVAL if of_seeds else metric.interval) if has_interval else None,
        "num_examples": cell.num_examples,
        "missing": cell.missing,
        "limit": row.limit,
        "all_examples": row.all_examples,
        "batch_size": suite.batch_size,
        "is_coupled": row.batch_size is not None,
        "num_flags": None if row.flags is None else len(row.raised),
        "flags": None if row.flags is None else ", ".join(flag.name for flag in row.raised),
    }
