"""Renderers for programs: CSV in long form, JSON and data frames; numbers unrounded and proportions in [0, 1].

In JSON names are unchanged, so that they can be compared; everything outside printable ASCII is escaped.
"""

from __future__ import annotations

from dataclasses import asdict
from math import inf, nan
from typing import TYPE_CHECKING

from robench.core.inert import inert_json
from robench.reports.table import csv_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from robench.core.report import Cell, Report, Row
    from robench.core.suite import Column

_HEADER = (
    *("model", "limit", "column", "metric", "conditions", "value", "low", "high", "num_examples", "missing"),
    *("all_examples", "batch_size", "seeds"),
)


def render_csv(report: Report) -> str:
    """Render the report as CSV: missing numbers are empty fields, conditions are joined by ``+``.

    ``all_examples`` is True where they replace a number that the suite states, and else empty. ``batch_size`` is given
    for coupled models, and empty for all others; ``seeds`` is the number of averaged training seeds, and empty for one
    checkpoint. Names of models end in their precision if that is not float32.

    An audited model has one more line, ``flags``, with the number of raised flags.
    """
    return csv_of(
        _HEADER,
        [
            (row.title, row.limit, *fields, len(row.seeds) or None)
            for row in report.rows
            for fields in fields_of(row, {column.key: column for column in report.columns})
        ],
    )


def fields_of(row: Row, columns: Mapping[str, Column]) -> Iterator[tuple[object, ...]]:
    """Yield the fields of each cell, and those of the raised flags of a checked row; ``columns`` are by key of cell."""
    scope = (row.all_examples or None, row.batch_size)
    for key, column in columns.items():
        cell = row.cells[key]
        named = (column.key, column.metric, "+".join(column.conditions))
        yield (*named, *numbers_of(cell), cell.num_examples, cell.missing, *scope)
    if row.flags is not None:
        yield ("flags", "num_raised", "", len(row.raised), None, None, None, None, *scope)


Json = None | int | float | str | list["Json"] | dict[str, "Json"]


def render_json(report: Report) -> str:
    """Render the report as JSON.

    A row has ``limit`` only if one was requested, ``all_examples`` only if they replace a number that the suite states,
    ``batch_size`` only if its model is coupled, ``seeds`` (names of checkpoints) only if it is a mean over them, its
    cells then ``of_seeds``, ``notes`` only if there are any, and ``flags``, raised or not, only if its model was
    checked. ``value``, ``low`` and ``high`` are null if examples are missing; ``num_examples`` is then the number of
    measured ones. They are also null if infinite, as a median distance can be, which JSON cannot represent: ``missing``
    is then 0. The report has ``notes`` only if there are any. Raises ValueError for NaN.
    """
    document: dict[str, Json] = {
        "suite": report.suite,
        "version": report.version,
        "seed": report.seed,
        "provenance": dict(report.provenance),
        "rows": [_plain_row(row, report.columns) for row in report.rows],
    }
    if report.notes:
        document["notes"] = list(report.notes)
    return inert_json(document) + "\n"


def _plain_row(row: Row, columns: tuple[Column, ...]) -> dict[str, Json]:
    document: dict[str, Json] = {"model": row.model, **scope_of(row)}
    document["cells"] = {column.key: plain_cell(row.cells[column.key]) for column in columns}
    if row.notes:
        document["notes"] = list(row.notes)
    if row.flags is not None:
        document["flags"] = [asdict(flag) for flag in row.flags]
    return document


def scope_of(row: Row) -> dict[str, Json]:
    """Return the restrictions under which the numbers of a row hold."""
    scope: dict[str, Json] = {
        "limit": row.limit,
        "all_examples": row.all_examples or None,
        "batch_size": row.batch_size,
        "precision": row.precision,
        "seeds": list(row.seeds) or None,
    }
    return {name: value for name, value in scope.items() if value is not None}


def numbers_of(cell: Cell) -> tuple[float | None, float | None, float | None]:
    """Return the number of a cell and the bounds of its interval; None for each that there is not."""
    estimate = cell.estimate
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)


def plain_cell(cell: Cell) -> dict[str, Json]:
    """Return a cell as JSON values; missing and infinite numbers are null."""
    estimate, (value, low, high) = cell.estimate, map(_finite, numbers_of(cell))
    document: dict[str, Json] = {"value": value, "low": low, "high": high}
    document |= {"num_examples": cell.num_examples, "missing": cell.missing}
    if estimate is not None and estimate.of_seeds:
        document["of_seeds"] = [_finite(value) for value in estimate.of_seeds]
    if estimate is not None and estimate.deviation is not None:
        document["deviation"] = estimate.deviation
    if estimate is not None and estimate.bias is not None:
        document["bias"] = _finite(estimate.bias)
    return document


def _finite(number: float | None) -> float | None:
    return None if number == inf else number


def frame_of(report: Report, *, intervals: bool) -> pd.DataFrame:
    """Return the numbers of a report, see ``Report.to_frame``."""
    import pandas as pd

    models = pd.Index([row.title for row in report.rows], name="model")
    keys = [column.key for column in report.columns]
    if not intervals:
        values = [[_numbers(row.cells[key])[0] for key in keys] for row in report.rows]
        return pd.DataFrame(values, index=models, columns=keys, dtype=float)
    columns = pd.MultiIndex.from_product([keys, ("value", "low", "high")], names=["column", "number"])
    lines = [[number for key in keys for number in _numbers(row.cells[key])] for row in report.rows]
    return pd.DataFrame(lines, index=models, columns=columns, dtype=float)


def _numbers(cell: Cell) -> tuple[float, ...]:
    return tuple(nan if number is None else number for number in numbers_of(cell))
