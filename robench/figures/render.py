"""Files of figures: SVG, PDF and PNG of plots, and of reports as a table of text, best numbers in bold.

Their bytes follow from the plot or the report and the release of matplotlib alone.
"""

from __future__ import annotations

import io
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING

from robench.core.errors import UsageError, described
from robench.core.inert import NOTE_WIDTH
from robench.core.providers import install_command
from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from robench.core.report import Report
    from robench.figures.plots import Plot
    from robench.reports.table import Table

SUFFIXES: Mapping[str, str] = {".svg": "svg", ".pdf": "pdf", ".png": "png"}
PNG_DOTS_PER_INCH = 200
# By format, what matplotlib would write of itself and of the time.
_METADATA: Mapping[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def check_matplotlib() -> None:
    """Refuse to go on where matplotlib cannot be imported, by a UsageError."""
    try:
        import matplotlib  # noqa: F401  # the import is the check
    except ModuleNotFoundError as error:
        raise UsageError(f"figures need matplotlib ({error}); install it with: {install_command('figures')}") from error
    # Such as a variable MPLBACKEND that names nothing, a ValueError.
    except Exception as error:
        raise UsageError(f"figures need matplotlib, whose import fails ({described(error)})") from error


def rendered(plot: Plot, format_name: str) -> bytes:
    """Return a plot as the content of a file: ``svg``, ``pdf`` or ``png``; raises like ``check_matplotlib``."""

    def draw() -> Figure:
        # Imported here: the extra 'figures' is optional.
        from robench.figures.draw import drawn

        return drawn(plot)

    return content_of(draw, format_name)


def content_of(draw: Callable[[], Figure], format_name: str) -> bytes:
    """Return a figure as the content of a file, drawn under robench's settings; see ``rendered``."""
    check_matplotlib()
    # Imported here: the extra 'figures' is optional.
    from robench.figures.draw import settings

    content = io.BytesIO()
    with settings():
        draw().savefig(
            content, format=format_name, metadata=_METADATA[format_name], dpi=PNG_DOTS_PER_INCH, facecolor="white"
        )
    return content.getvalue()


# In inches, at the sizes of the settings.
_CHARACTER, _SMALL_CHARACTER, _PADDING, _ROW, _LINE, _MARGIN = 0.072, 0.062, 0.25, 0.24, 0.15, 0.1
_LABEL_WIDTH = 18


def table_picture(report: Report, format_name: str) -> bytes:
    """Return a report as the content of a picture file (``svg``, ``pdf``, ``png``); raises like ``rendered``."""
    return content_of(partial(_drawn_table, grid_of(report)), format_name)


TABLE_PICTURES: Mapping[str, Callable[[Report], bytes]] = {
    name: partial(table_picture, format_name=name) for name in ("png", "svg", "pdf")
}


def _drawn_table(grid: Table) -> Figure:
    # Imported here: the extra 'figures' is optional.
    from matplotlib.figure import Figure

    from robench.figures.draw import TINY, legible

    header = [wrap(legible(text, NOTE_WIDTH), _LABEL_WIDTH) or [""] for text in grid.header]
    rows = [[legible(text, NOTE_WIDTH) for text in row] for row in grid.rows]
    widths = [
        _PADDING + _CHARACTER * max(len(text) for text in (*header[place], *(row[place] for row in rows)))
        for place in range(len(header))
    ]
    width = sum(widths) + 2 * _MARGIN
    notes = [
        line
        for note in (*grid.notes, *grid.closing)
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
