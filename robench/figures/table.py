"""Pictures of reports: the table as text of one font, best numbers in bold."""

from __future__ import annotations

from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING

from robench.core.inert import NOTE_WIDTH
from robench.figures.render import content_of
from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from robench.core.report import Report
    from robench.reports.grid import Grid

# In inches, at the sizes of the settings.
_CHARACTER, _SMALL_CHARACTER, _PADDING, _ROW, _LINE, _MARGIN = 0.072, 0.062, 0.25, 0.24, 0.15, 0.1
_LABEL_WIDTH = 18


def table_picture(report: Report, format_name: str) -> bytes:
    """Return a report as the content of a picture file: ``svg``, ``pdf`` or ``png``.

    Raises:
        UsageError: matplotlib cannot be imported.
    """
    return content_of(partial(_drawn, grid_of(report)), format_name)


TABLE_PICTURES: Mapping[str, Callable[[Report], bytes]] = {
    name: partial(table_picture, format_name=name) for name in ("png", "svg", "pdf")
}


def _drawn(grid: Grid) -> Figure:
    # Imported here: the extra 'figures' is optional.
    from matplotlib.figure import Figure

    from robench.figures.style import TINY, legible

    header = [wrap(legible(text, NOTE_WIDTH), _LABEL_WIDTH) or [""] for text in grid.header]
    rows = [[legible(text, NOTE_WIDTH) for text in row] for row in grid.rows]
    widths = [
        _PADDING + _CHARACTER * max(len(text) for text in (*header[place], *(row[place] for row in rows)))
        for place in range(len(header))
    ]
    width = sum(widths) + 2 * _MARGIN
    notes = [
        line
        for note in (*grid.notes, grid.provenance)
        for line in wrap(legible(note, NOTE_WIDTH), max(30, int((width - 2 * _MARGIN) / _SMALL_CHARACTER)))
    ]
    head = _LINE * max(map(len, header)) + _LINE / 2
    height = head + _ROW * len(rows) + _LINE * (len(notes) + 1) + 2 * _MARGIN
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(height, 0))
    # Names to the left, numbers to the right of their columns.
    ends = [_MARGIN + sum(widths[: place + 1]) for place in range(len(widths))]
    places = [(_MARGIN, "left"), *((end, "right") for end in ends[1:])]
    below = _MARGIN + head
    for (x, side), lines in zip(places, header, strict=True):
        axes.text(x, below - _LINE / 3, "\n".join(lines), ha=side, va="bottom", multialignment=side)
    axes.plot([_MARGIN, width - _MARGIN], [below, below], color="black", linewidth=0.8)
    for line, row in enumerate(rows):
        for column, ((x, side), text) in enumerate(zip(places, row, strict=True)):
            weight = "bold" if (line, column) in grid.bold else "normal"
            axes.text(x, below + _ROW * (line + 0.5), text, ha=side, va="center", weight=weight)
    for line, text in enumerate(notes):
        axes.text(_MARGIN, below + _ROW * len(rows) + _LINE * (line + 1), text, va="center", size=TINY)
    return figure
