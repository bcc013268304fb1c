"""Plain-text renderer for ``robench run`` and ``robench report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.report import Report
    from robench.reports.grid import Grid

_MAX_WIDTH = 120


def render_text(report: Report) -> str:
    """Render the report as an aligned table without colours, with its notes and one line of provenance below.

    A table wider than 120 characters is transposed, with a column per model, if that is narrower.
    """
    grid = grid_of(report)
    notes = "".join(f"- {note}\n" for note in grid.notes)
    return "\n".join([f"{_narrow_table(grid)}\n", *([notes] if notes else []), f"{grid.provenance}\n"])


def _narrow_table(grid: Grid) -> str:
    upright = [grid.header, *grid.rows]
    table = _table(upright)
    if _width(table) <= _MAX_WIDTH or not grid.rows:
        return table
    return min(table, _table(list(zip(*upright, strict=True))), key=_width)


def _table(lines: Sequence[tuple[str, ...]]) -> str:
    # Without disable_numparse 68.70 becomes 68.7 and a model called 1e5 a number.
    return tabulate(lines[1:], headers=lines[0], tablefmt="simple", disable_numparse=True)


def _width(table: str) -> int:
    return max(len(line) for line in table.splitlines())
