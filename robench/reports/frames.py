"""Reports as data frames."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from robench.core.report import Cell, Report


def frame_of(report: Report, *, intervals: bool) -> pd.DataFrame:
    """Return the numbers of a report, see ``Report.to_frame``."""
    models = pd.Index([row.title for row in report.rows], name="model")
    keys = [column.key for column in report.columns]
    if not intervals:
        values = [[_numbers(row.cells[key])[0] for key in keys] for row in report.rows]
        return pd.DataFrame(values, index=models, columns=keys, dtype=float)
    columns = pd.MultiIndex.from_product([keys, ("value", "low", "high")], names=["column", "number"])
    lines = [[number for key in keys for number in _numbers(row.cells[key])] for row in report.rows]
    return pd.DataFrame(lines, index=models, columns=columns, dtype=float)


def _numbers(cell: Cell) -> tuple[float, float, float]:
    estimate = cell.estimate
    if estimate is None:
        return nan, nan, nan
    low, high = (nan if bound is None else bound for bound in (estimate.low, estimate.high))
    return estimate.value, low, high
