"""Order of a report's rows, and choice of its columns."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeVar

from robench.core.errors import UsageError, did_you_mean
from robench.core.report import Report, Row
from robench.core.suite import Column
from robench.metrics import METRICS

AnyRow = TypeVar("AnyRow", bound=Row)


def arranged(report: Report, *, columns: Sequence[str] = (), sort: str | None = None) -> Report:
    """Return the report with some of its columns, and its rows in order of one of them.

    Args:
        report: table of one suite.
        columns: keys of columns, or patterns of them such as ``pgd*`` or ``*/top1_accuracy``; a name of a metric or a
            condition selects all of its columns. All if empty; the order is the suite's.
        sort: key of the column by which the best row comes first; rows without the number come last, and equal ones
            stay in order. A metric or condition with one column names it.

    Raises:
        UsageError: no column is so named, or several are by ``sort``.
    """
    shown = report.columns
    if columns:
        keys = {column.key for name in columns for column in named_columns(report.columns, name)}
        shown = tuple(column for column in report.columns if column.key in keys)
    rows = report.rows
    if sort is not None:
        column = one_column(report.columns, sort)
        rows = best_first(rows, column.key, lower_is_better=METRICS[column.metric].lower_is_better)
    return replace(report, columns=shown, rows=rows)


def named_columns(columns: Sequence[Column], name: str) -> list[Column]:
    """Return the columns whose key, metric or only condition is ``name``, or whose key matches it as a pattern."""
    found = [
        column
        for column in columns
        if name in (column.key, column.metric) or (name,) == column.conditions or fnmatchcase(column.key, name)
    ]
    if not found:
        known = {each for column in columns for each in (column.key, column.metric, *column.conditions[:1])}
        raise UsageError(f"no column is named {name!r}.{did_you_mean(name, known)}")
    return found


def one_column(columns: Sequence[Column], name: str) -> Column:
    """Return the one column that ``named_columns`` finds; raises UsageError if there are none or several."""
    first, *others = named_columns(columns, name)
    if others:
        keys = ", ".join(column.key for column in (first, *others))
        raise UsageError(f"{name!r} names several columns; sort by one of {keys}")
    return first


def best_first(rows: Sequence[AnyRow], key: str, *, lower_is_better: bool) -> tuple[AnyRow, ...]:
    """Return the rows in order of one column; those without its number come last, and equal ones stay in order."""
    sign = 1 if lower_is_better else -1

    def place(row: AnyRow) -> tuple[bool, float]:
        estimate = row.cells[key].estimate
        return (True, 0.0) if estimate is None else (False, sign * estimate.value)

    return tuple(sorted(rows, key=place))
