"""A report as CSV in long form, one line a cell, numbers unrounded and shares in [0, 1].

A text that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a spreadsheet; an apostrophe before it keeps it
text.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from typing import TYPE_CHECKING

from robench.core.inert import printable

if TYPE_CHECKING:
    from robench.core.report import Report, Row
    from robench.core.suite import Column

_HEADER = (
    "model",
    "limit",
    "column",
    "metric",
    "conditions",
    "value",
    "low",
    "high",
    "num_examples",
    "missing",
    "batch_size",
)
_FORMULA_STARTS = ("=", "+", "-", "@")


def render_csv(report: Report) -> str:
    """Return the report as CSV: nothing between two commas where there is no number; conditions joined by ``+``.

    ``batch_size`` is that of a coupled model, and empty for all others.

    A model that was checked has one more line, ``flags``, with the number of flags that are raised.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_HEADER)
    for row in report.rows:
        writer.writerows(_line(row, column) for column in report.columns)
        if row.flags is not None:
            flags = ("flags", "num_raised", "", len(row.raised), *[None] * 4)
            writer.writerow((inert_field(row.model), row.limit, *flags, row.batch_size))
    return file.getvalue()


def _line(row: Row, column: Column) -> tuple[str | int | float | None, ...]:
    cell = row.cells[column.key]
    estimate = cell.estimate
    return (
        inert_field(row.model),
        row.limit,
        inert_field(column.key),
        inert_field(column.metric),
        inert_field("+".join(column.conditions)),
        *((None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)),
        cell.num_examples,
        cell.missing,
        row.batch_size,
    )


def inert_field(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula and no terminal obeys."""
    shown = printable(text)
    # Some spreadsheets take full-width signs for the ordinary ones, and pass over blanks before them.
    read = unicodedata.normalize("NFKC", shown).lstrip()
    return f"'{shown}" if read.startswith(_FORMULA_STARTS) else shown
