"""CSV renderer in long form: one line per cell, numbers unrounded and proportions in [0, 1].

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
    "all_examples",
    "batch_size",
    "seeds",
)
_FORMULA_STARTS = ("=", "+", "-", "@")


def render_csv(report: Report) -> str:
    """Render the report as CSV: missing numbers are empty fields, conditions are joined by ``+``.

    ``all_examples`` is True where they replace a number that the suite states, and else empty. ``batch_size`` is given
    for coupled models, and empty for all others; ``seeds`` is the number of averaged training seeds, and empty for one
    checkpoint. Names of models end in their precision if that is not float32.

    An audited model has one more line, ``flags``, with the number of raised flags.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_HEADER)
    for row in report.rows:
        writer.writerows(_line(row, column) for column in report.columns)
        if row.flags is not None:
            flags = ("flags", "num_raised", "", len(row.raised), *[None] * 4, _is_whole(row))
            writer.writerow((inert_text(row.title), row.limit, *flags, row.batch_size, len(row.seeds) or None))
    return file.getvalue()


def _line(row: Row, column: Column) -> tuple[str | int | float | None, ...]:
    cell = row.cells[column.key]
    estimate = cell.estimate
    return (
        inert_text(row.title),
        row.limit,
        inert_text(column.key),
        inert_text(column.metric),
        inert_text("+".join(column.conditions)),
        *((None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)),
        cell.num_examples,
        cell.missing,
        _is_whole(row),
        row.batch_size,
        len(row.seeds) or None,
    )


def _is_whole(row: Row) -> bool | None:
    return row.all_examples or None


def inert_text(text: str) -> str:
    """Return text that no spreadsheet takes for a formula, with what is not visible escaped."""
    shown = printable(text)
    # Some spreadsheets treat full-width signs as ordinary ones, and ignore blanks before them.
    read = unicodedata.normalize("NFKC", shown).lstrip()
    return f"'{shown}" if read.startswith(_FORMULA_STARTS) else shown
