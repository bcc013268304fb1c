"""JSON renderer: numbers unrounded and proportions in [0, 1].

Names are unchanged, so that they can be compared; everything outside printable ASCII is escaped.
"""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING

from robench.core.inert import inert_json

if TYPE_CHECKING:
    from robench.core.report import Cell, Report, Row
    from robench.core.suite import Column

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
        "rows": [_row(row, report.columns) for row in report.rows],
    }
    if report.notes:
        document["notes"] = list(report.notes)
    return inert_json(document) + "\n"


def _row(row: Row, columns: tuple[Column, ...]) -> dict[str, Json]:
    document: dict[str, Json] = {"model": row.model}
    if row.limit is not None:
        document["limit"] = row.limit
    if row.all_examples:
        document["all_examples"] = True
    if row.batch_size is not None:
        document["batch_size"] = row.batch_size
    if row.precision is not None:
        document["precision"] = row.precision
    if row.seeds:
        document["seeds"] = list(row.seeds)
    document["cells"] = {column.key: plain_cell(row.cells[column.key]) for column in columns}
    if row.notes:
        document["notes"] = list(row.notes)
    if row.flags is not None:
        document["flags"] = [asdict(flag) for flag in row.flags]
    return document


def plain_cell(cell: Cell) -> dict[str, Json]:
    """Return a cell as JSON values; numbers are null where there is none, or where they are infinite."""
    estimate = cell.estimate
    document: dict[str, Json] = {
        "value": None if estimate is None else _finite(estimate.value),
        "low": None if estimate is None else _finite(estimate.low),
        "high": None if estimate is None else _finite(estimate.high),
        "num_examples": cell.num_examples,
        "missing": cell.missing,
    }
    if estimate is not None and estimate.of_seeds:
        document["of_seeds"] = [_finite(value) for value in estimate.of_seeds]
    return document


def _finite(number: float | None) -> float | None:
    return None if number == inf else number
