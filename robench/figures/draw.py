"""Drawing of plots with matplotlib, on figures of their own: no window, no display and no global state.

Colours are those of Okabe and Ito (2008), which readers with any colour vision distinguish, without the yellow that is
too light on white. Markers and dashes differ too, so that a grey print does. Names are inert text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isnan, nan
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from robench.core.inert import NOTE_WIDTH, clipped
from robench.figures.plots import LinePanel, MapPanel, PlacePanel, Plot, SeedPanel, SeedRow, Series
from robench.leaderboard.board import Point
from robench.leaderboard.chart import colour_of

# In inches, at the sizes of the settings.
_PANEL_WIDTH, _PANEL_HEIGHT, _PLACES_HEIGHT, _LEAST_WIDTH = 2.3, 1.9, 2.6, 4.0
_CHARACTER, _SMALL_CHARACTER, _LINE, _ROW = 0.075, 0.062, 0.16, 0.22
_BESIDE_AXES = 0.7
_MARKED_POINTS = 12
# Beside the middle of a row, in rows: the mean below its seeds.
_SEEDS_AT, _MEAN_AT = -0.12, 0.18


@contextmanager
def settings() -> Iterator[None]:
    """Draw under robench's settings and none of the user's, which are restored."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def drawn(plot: Plot) -> Figure:
    """Return the figure of a plot: panels in a grid, the legend above them and the notes below.

    Axes are in the order of the panels.
    """
    names = legible_names(plot.labels)
    colours = plot.colours or tuple(map(colour_of, plot.models))
    styles = {
        model: style_of(place, colour) for place, (model, colour) in enumerate(zip(plot.models, colours, strict=True))
    }
    has_rows = isinstance(plot.panels[0], SeedPanel)
    count = len(plot.panels)
    num_columns = plot.columns or (count if count <= 3 else 3 if count <= 6 else 4 if count <= 12 else 5)
    num_rows = -(-count // num_columns)
    beside = _SMALL_CHARACTER * max(map(len, names)) if has_rows else 0.0
    named = getattr(plot.panels[0], "y_names", ())
    width = max(_LEAST_WIDTH, num_columns * _PANEL_WIDTH + beside) + 2 * _ROW * len(named)
    notes = wrap(" ".join(legible(note, NOTE_WIDTH) for note in plot.notes), int(width / _SMALL_CHARACTER))
    has_places = isinstance(plot.panels[0], PlacePanel)
    with settings():
        handles = _handles(plot, names, styles)
        per_line, num_lines = _shape_of_legend([name for name, _ in handles], width)
        panel_height = 0.75 + _ROW * len(names) if has_rows else _PLACES_HEIGHT if has_places else _PANEL_HEIGHT
        panel_height += _ROW * len(named)
        height = num_rows * panel_height + _LINE * (num_lines + len(notes)) + 0.3
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
        for place, panel in enumerate(plot.panels):
            is_first = place % num_columns == 0
            if isinstance(panel, SeedPanel):
                _draw_rows(grid[place], panel, styles, names if is_first else None)
            elif isinstance(panel, PlacePanel):
                _draw_places(grid[place], panel, styles)
            elif isinstance(panel, MapPanel):
                _draw_map(grid[place], panel, says_y=is_first)
            else:
                _draw_lines(grid[place], panel, styles, says_y=is_first or _differs(plot, place))
                _label_ticks(grid[place], panel, width / num_columns)
        for axes in grid[len(plot.panels) :]:
            axes.remove()
        _add_legend(figure, handles, per_line)
        figure.supxlabel("\n".join(notes), fontsize=TINY, color=NEUTRAL)
    return figure


def _differs(plot: Plot, place: int) -> bool:
    """Return whether a panel of lines has another vertical axis than the one on its left."""
    left, panel = plot.panels[place - 1], plot.panels[place]
    return isinstance(left, LinePanel) and isinstance(panel, LinePanel) and left.y_label != panel.y_label


def _draw_lines(axes: Axes, panel: LinePanel, styles: Mapping[str, Style], *, says_y: bool) -> None:
    for series in panel.series:
        _draw_series(axes, series, styles[series.model])
    _name(axes, panel, says_y=says_y)
    if panel.is_logarithmic_in_y:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if panel.is_per_cent:
        axes.set_ylim(-3, 103)
        axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100"])
    else:
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _label_ticks(axes: Axes, panel: LinePanel, width: float) -> None:
    """Label the places of a panel of so many inches, or count where it has none."""
    if panel.is_logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif panel.ticks:
        axes.set_xticks([place for place, _ in panel.ticks], _spread(panel.ticks, width))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=_counts(panel), nbins=6))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _counts(panel: LinePanel) -> bool:
    return all(point.x.is_integer() for series in panel.series for point in series.points)


def _draw_map(axes: Axes, panel: MapPanel, *, says_y: bool) -> None:
    steps = [(places[-1] - places[0]) / max(1, len(places) - 1) or 1.0 for places in (panel.x, panel.y)]
    left, right = panel.x[0] - steps[0] / 2, panel.x[-1] + steps[0] / 2
    top, bottom = panel.y[0] - steps[1] / 2, panel.y[-1] + steps[1] / 2
    axes.grid(visible=False)
    image = axes.imshow(panel.values, cmap="viridis", extent=(left, right, bottom, top), interpolation="nearest")
    if panel.has_contours:
        axes.contour(panel.x, panel.y, panel.values, colors="white", linewidths=0.5)
    _name(axes, panel, says_y=says_y)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    if panel.y_names:
        _print_values(axes, panel)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label(legible(panel.label))
    bar.locator = MaxNLocator(nbins=4)
    bar.update_ticks()


def _print_values(axes: Axes, panel: MapPanel) -> None:
    axes.set_aspect("auto")
    axes.set_xticks(panel.x, list(map(legible, panel.x_names)), rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(panel.y, list(map(legible, panel.y_names)))
    finite = [value for row in panel.values for value in row if not isnan(value)]
    for y, row in zip(panel.y, panel.values, strict=True):
        for x, value in zip(panel.x, row, strict=True):
            is_dark = value < (min(finite) + max(finite)) / 2
            text = "-" if isnan(value) else f"{value:.1f}"
            axes.text(x, y, text, ha="center", va="center", fontsize=TINY, color="white" if is_dark else "black")


def _draw_series(axes: Axes, series: Series, style: Style) -> None:
    points = series.points
    x = [point.x for point in points]
    y = [nan if point.value is None else point.value for point in points]
    if series.is_seed:
        axes.plot(x, y, color=style.colour, linestyle="-", linewidth=0.5, alpha=0.4)
        return
    # Of long lines, some points have markers and whiskers.
    every = max(1, len(points) // _MARKED_POINTS)
    axes.errorbar(
        x,
        y,
        yerr=_lengths(points),
        color=style.colour,
        linestyle=style.dashes,
        marker=style.marker,
        markevery=every,
        errorevery=every,
        elinewidth=0.8,
        capsize=1.8,
        # Above the thin lines of seeds.
        zorder=3,
    )


def _lengths(points: Sequence[Point]) -> list[tuple[float, ...]] | None:
    """Return the lengths of the whiskers below and above each point; None where no point has an interval."""
    lengths = [_reach(point.value, point.low, point.high) for point in points]
    return None if all(isnan(below) for below, _ in lengths) else list(zip(*lengths, strict=True))


def _reach(value: float | None, low: float | None, high: float | None) -> tuple[float, float]:
    if value is None or low is None or high is None:
        return nan, nan
    return max(0.0, value - low), max(0.0, high - value)


def _draw_rows(axes: Axes, panel: SeedPanel, styles: Mapping[str, Style], names: Sequence[str] | None) -> None:
    for place, row in enumerate(panel.rows):
        _draw_row(axes, place, row, styles[row.model])
    _name(axes, panel)
    axes.set_yticks(range(len(panel.rows)), names or [""] * len(panel.rows))
    # The first model at the top.
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _draw_row(axes: Axes, place: int, row: SeedRow, style: Style) -> None:
    if row.gap:
        axes.text(0.5, place, row.gap, transform=axes.get_yaxis_transform(), ha="center", va="center", fontsize=TINY)
        return
    heights = [place + (0 if row.mean is None else _SEEDS_AT)] * len(row.seeds)
    if row.mean is None and row.low is not None and row.high is not None:
        axes.plot([row.low, row.high], [place, place], color=style.colour, linewidth=0.8)
    axes.plot(row.seeds, heights, linestyle="none", marker="o", markersize=3.5, color=style.colour, fillstyle="none")
    if row.mean is not None:
        has_interval = row.low is not None and row.high is not None
        lengths = [[length] for length in _reach(row.mean, row.low, row.high)] if has_interval else None
        axes.errorbar(
            [row.mean], [place + _MEAN_AT], xerr=lengths, linestyle="none", marker="D", color=style.colour, capsize=1.8
        )


def _draw_places(axes: Axes, panel: PlacePanel, styles: Mapping[str, Style]) -> None:
    for each in panel.places:
        style = styles[each.model]
        axes.errorbar(
            [each.x],
            [each.y],
            xerr=None if each.x_bounds is None else [[length] for length in _reach(each.x, *each.x_bounds)],
            yerr=None if each.y_bounds is None else [[length] for length in _reach(each.y, *each.y_bounds)],
            linestyle="none",
            marker=style.marker,
            color=style.colour,
            elinewidth=0.8,
            capsize=1.8,
        )
    _name(axes, panel)
    axes.margins(0.1)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(nbins=5))
        side.set_major_formatter(StrMethodFormatter("{x:g}"))


def _handles(plot: Plot, names: Sequence[str], styles: Mapping[str, Style]) -> list[tuple[str, Line2D]]:
    """Return the entries of the legend; maps name their models in their titles."""
    first = plot.panels[0]
    if isinstance(first, MapPanel):
        return []
    if isinstance(first, SeedPanel):
        return _seed_handles(plot)
    has_lines = isinstance(first, LinePanel)
    dashes: Mapping[str, Any] = {model: style.dashes if has_lines else "none" for model, style in styles.items()}
    return [
        (name, Line2D([], [], color=style.colour, linestyle=dashes[model], marker=style.marker))
        for name, (model, style) in zip(names, styles.items(), strict=True)
    ]


def _seed_handles(plot: Plot) -> list[tuple[str, Line2D]]:
    rows = [row for panel in plot.panels if isinstance(panel, SeedPanel) for row in panel.rows]
    looks: dict[str, dict[str, Any]] = {}
    if any(row.mean is not None for row in rows):
        looks["training seed"] = {"marker": "o", "fillstyle": "none"}
        looks["mean over seeds"] = {"marker": "D"}
    if any(row.mean is None and row.seeds for row in rows):
        looks["one checkpoint"] = {"marker": "o", "fillstyle": "none"}
    return [(name, Line2D([], [], color=NEUTRAL, linestyle="none", **look)) for name, look in looks.items()]


def _shape_of_legend(names: Sequence[str], width: float) -> tuple[int, int]:
    """Return the number of names on a line, and the number of lines."""
    beside = max(1, int(width / (0.55 + _CHARACTER * max(map(len, names), default=1))))
    per_line = max(1, min(beside, len(names)))
    return per_line, -(-len(names) // per_line)


def _add_legend(figure: Figure, handles: Sequence[tuple[str, Line2D]], per_line: int) -> None:
    # Written afterwards: matplotlib leaves out of legends what begins with an underscore.
    legend = figure.legend(
        [handle for _, handle in handles],
        [str(place) for place in range(len(handles))],
        loc="outside upper center",
        ncols=per_line,
        frameon=False,
        handlelength=2.6,
    )
    for text, (name, _) in zip(legend.get_texts(), handles, strict=True):
        text.set_text(name)


def _spread(ticks: Sequence[tuple[float, str]], width: float) -> list[str]:
    """Return a label for each tick, empty where it would touch the one before or the last."""
    first, last = ticks[0][0], ticks[-1][0]
    inches = (width - _BESIDE_AXES) / (last - first) if last > first else 1.0
    texts = [legible(text, 12) for _, text in ticks]
    halves = [_SMALL_CHARACTER * (len(text) + 1) / 2 for text in texts]
    shown = [0]
    for place in range(1, len(ticks)):
        if inches * (ticks[place][0] - ticks[shown[-1]][0]) >= halves[place] + halves[shown[-1]]:
            shown.append(place)
    if shown[-1] != len(ticks) - 1 and len(shown) > 1:
        # The end of the axis says more than the tick before it.
        shown[-1] = len(ticks) - 1
    return [text if place in shown else "" for place, text in enumerate(texts)]


def _name(axes: Axes, panel: LinePanel | MapPanel | PlacePanel | SeedPanel, *, says_y: bool = True) -> None:
    axes.set_title("\n".join(wrap(legible(panel.title, 2 * TITLE_WIDTH), TITLE_WIDTH)[:2]))
    axes.set_xlabel(legible(panel.x_label))
    if says_y and not isinstance(panel, SeedPanel):
        axes.set_ylabel(legible(panel.y_label))


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
NEUTRAL = "#555555"
NAME_WIDTH, TITLE_WIDTH = 32, 30
FONT = "DejaVu Sans"
SMALL, TINY = 7.5, 6.5
# What a name says is never mathematics, and no font of the machine is used but matplotlib's own.
SETTINGS: Any = {
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "font.family": [FONT],
    "font.size": SMALL,
    "axes.titlesize": SMALL,
    "axes.labelsize": SMALL,
    "xtick.labelsize": TINY,
    "ytick.labelsize": TINY,
    "legend.fontsize": SMALL,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "figure.dpi": 100,
    "svg.fonttype": "path",
    "svg.hashsalt": "robench",
    # Fonts as outlines that journals take (TrueType), and not as bitmaps or Type 3.
    "pdf.fonttype": 42,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Look of one model's points and lines."""

    colour: str
    marker: str
    dashes: Any


def style_of(place: int, colour: int) -> Style:
    """Return the look of the model at this place, counted from 0; the first 40 differ in markers and dashes."""
    return Style(
        colour=COLOURS[colour % len(COLOURS)],
        marker=MARKERS[place % len(MARKERS)],
        dashes=DASHES[place % len(DASHES)],
    )


def legible(text: str, width: int = NAME_WIDTH) -> str:
    """Return text of at most ``width`` characters that the font has; invisible and other characters are escaped."""
    shown = "".join(
        each if ord(each) in _glyphs() else each.encode("unicode_escape").decode("ascii")
        for each in clipped(text, width)
    )
    return clipped(shown, width)


def legible_names(names: Sequence[str]) -> list[str]:
    """Return names for a legend, which stay different where truncation made them equal."""
    found: list[str] = []
    for name in names:
        shown, number = legible(name), 1
        while shown in found:
            number += 1
            shown = f"{legible(name, NAME_WIDTH - 5)} ({number})"
        found.append(shown)
    return found


@cache
def _glyphs() -> frozenset[int]:
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{FONT.replace(' ', '')}.ttf"
    return frozenset(FT2Font(str(path)).get_charmap())
