"""Plain-text renderer for ``robench run`` and ``robench report``."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from tabulate import tabulate

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.report import Report
    from robench.reports.grid import Grid

_MAX_WIDTH, _LABEL_WIDTH = 120, 14


def render_text(report: Report) -> str:
    """Render the report as an aligned table without colours, with its notes and one line of provenance below.

    Best numbers have an asterisk. Headers of a table wider than 120 characters are wrapped; if it is still wider, it is
    transposed, with a column per model, where that is narrower.
    """
    grid = grid_of(report)
    notes = "".join(f"- {note}\n" for note in grid.notes)
    return "\n".join([f"{_narrow_table(grid)}\n", *([notes] if notes else []), f"{grid.provenance}\n"])


def _narrow_table(grid: Grid) -> str:
    tables = [_table(grid.header, grid), _table(tuple(map(_wrapped, grid.header)), grid)]
    for table in tables:
        if _width(table) <= _MAX_WIDTH or not grid.rows:
            return table
    turned = grid.transposed
    return min(tables[0], _table(turned.header, turned), key=_width)


def _wrapped(label: str) -> str:
    return "\n".join(wrap(label, _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False))


def _table(header: Sequence[str], grid: Grid) -> str:
    # Without disable_numparse 68.70 becomes 68.7 and a model called 1e5 a number.
    lines = grid.lines("{} *".format)
    return tabulate(lines, headers=header, tablefmt="simple", disable_numparse=True)


def _width(table: str) -> int:
    return max(len(line) for line in table.splitlines())
