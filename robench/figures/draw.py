"""Drawing of plots with matplotlib, on figures of their own: no window, no display and no global state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from robench.core.inert import NOTE_WIDTH
from robench.figures.plots import LinePanel, MapPanel, PlacePanel, Plot, SeedPanel, SeedRow, Series
from robench.figures.style import NEUTRAL, SIZE, Style, legible, legible_names, looks_of, settings, style_of
from robench.leaderboard.board import Point

# Inches: the narrowest panel by its kind; a character, a line, a row and the labels beside axes.
_NARROWEST: Mapping[type, float] = {LinePanel: 1.55, SeedPanel: 1.55, PlacePanel: 2.2, MapPanel: 2.2}
_CHARACTER, _LINE, _ROW, _BESIDE_AXES = 0.07, 0.17, 0.23, 0.7
_MARKED_POINTS = 12
# Beside the middle of a row, in rows: the mean below its seeds.
_SEEDS_AT, _MEAN_AT = -0.12, 0.18


def drawn(plot: Plot, width: float = 3.25, registry: Iterable[str] = ()) -> Figure:
    """Return the figure of a plot: panels in a grid, the legend above them and the notes below.

    Axes are in the order of the panels. The figure is ``width`` inches wide; maps with names are as wide as these need.
    ``registry`` are names of entries, whose places decide colours and markers.
    """
    names = legible_names(plot.labels)
    looks = zip(plot.models, looks_of(plot, registry), strict=True)
    styles = {model: style_of(look, place) for place, (model, look) in enumerate(looks)}
    first, count = plot.panels[0], len(plot.panels)
    beside = _CHARACTER * max(map(len, names)) if isinstance(first, SeedPanel) else 0.0
    if isinstance(first, MapPanel) and first.y_names:
        beside = _CHARACTER * max(map(len, first.y_names))
        width = max(width, beside + 2 * _ROW * len(first.x_names) + 1.0)
    most = max(1, int((width - beside) / _NARROWEST[type(first)]))
    wanted = plot.columns or count
    num_columns = -(-wanted // -(-wanted // most))
    num_rows = -(-count // num_columns)
    panel_width = (width - beside) / num_columns
    notes = wrap(" ".join(legible(note, NOTE_WIDTH) for note in plot.notes), int(width / _CHARACTER))
    with settings():
        handles = _handles(plot, names, styles)
        per_line, num_lines = _shape_of_legend([name for name, _ in handles], width)
        height = num_rows * _height_of(first, panel_width) + _LINE * (num_lines + len(notes)) + 0.3
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
                _label_ticks(grid[place], panel, panel_width)
            _title(grid[place], panel.title, panel_width)
        for axes in grid[len(plot.panels) :]:
            axes.remove()
        _add_legend(figure, handles, per_line)
        figure.supxlabel("\n".join(notes), fontsize=SIZE, color=NEUTRAL)
    return figure


def _height_of(panel: LinePanel | MapPanel | PlacePanel | SeedPanel, width: float) -> float:
    """Return the height of a panel with its title and labels, in inches, given its width."""
    if isinstance(panel, SeedPanel):
        return 0.75 + _ROW * len(panel.rows)
    if isinstance(panel, MapPanel) and panel.y_names:
        return 1.9 + _ROW * len(panel.y_names)
    return min(2.6, 0.45 * width + 1.1)


def _title(axes: Axes, title: str, width: float) -> None:
    # Centred over the axes, which are narrower than the panel.
    most = int(0.9 * width / _CHARACTER) - 2
    axes.set_title("\n".join(wrap(legible(title, 2 * most), most, break_on_hyphens=False)[:2]))


def _differs(plot: Plot, place: int) -> bool:
    """Return whether a panel of lines has another vertical axis than the one on its left."""
    left, panel = plot.panels[place - 1], plot.panels[place]
    return isinstance(left, LinePanel) and isinstance(panel, LinePanel) and left.y_label != panel.y_label


def _draw_lines(axes: Axes, panel: LinePanel, styles: Mapping[str, Style], *, says_y: bool) -> None:
    for series in panel.series:
        _draw_series(axes, series, styles[series.model])
    if panel.has_diagonal:
        axes.axline((0, 0), slope=1, color=NEUTRAL, linewidth=0.8, zorder=1)
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
            axes.text(x, y, text, ha="center", va="center", color="white" if is_dark else "black")


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
    if panel.origin is not None:
        axes.axvline(panel.origin, color=NEUTRAL, linewidth=0.8, zorder=1)
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
        axes.text(0.5, place, row.gap, transform=axes.get_yaxis_transform(), ha="center", va="center")
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
    beside = max(1, int(width / (0.5 + 0.9 * _CHARACTER * max(map(len, names), default=1))))
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
        handlelength=2.4,
        columnspacing=1.0,
    )
    for text, (name, _) in zip(legend.get_texts(), handles, strict=True):
        text.set_text(name)


def _spread(ticks: Sequence[tuple[float, str]], width: float) -> list[str]:
    """Return a label for each tick, empty where it would touch the one before or the last."""
    first, last = ticks[0][0], ticks[-1][0]
    inches = (width - _BESIDE_AXES) / (last - first) if last > first else 1.0
    texts = [legible(text, 12) for _, text in ticks]
    halves = [_CHARACTER * (len(text) + 1) / 2 for text in texts]
    shown = [0]
    for place in range(1, len(ticks)):
        if inches * (ticks[place][0] - ticks[shown[-1]][0]) >= halves[place] + halves[shown[-1]]:
            shown.append(place)
    if shown[-1] != len(ticks) - 1 and len(shown) > 1:
        # The end of the axis says more than the tick before it.
        shown[-1] = len(ticks) - 1
    return [text if place in shown else "" for place, text in enumerate(texts)]


def _name(axes: Axes, panel: LinePanel | MapPanel | PlacePanel | SeedPanel, *, says_y: bool = True) -> None:
    axes.set_xlabel(legible(panel.x_label))
    if says_y and not isinstance(panel, SeedPanel):
        axes.set_ylabel(legible(panel.y_label))
