"""Charts as SVG, with no dependency: lines of models over budgets or severities.

Colours and widths are the page's (classes ``line-0`` to ``line-6``), so that a chart follows its light and dark theme.
Numbers are rounded to a tenth of a unit; the same chart gives the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import isfinite
from zlib import crc32

from robench.core.checkpoint import entry_name
from robench.core.inert import clipped
from robench.leaderboard.board import Chart, Point

_WIDTH, _HEIGHT = 360, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 12, 42
_MARKERS = ("circle", "box", "diamond", "triangle")


NUM_COLOURS = 7
# Of a million starts the one with the fewest equal colours among the models of robench's own figures.
_FIRST = 152432


def colour_of(model: str) -> int:
    """Return the number of a model's colour, the same in all figures and pages, and for all seeds of an entry."""
    return crc32(entry_name(model).encode("utf-8", "backslashreplace"), _FIRST) % NUM_COLOURS


def svg_of(chart: Chart, styles: Mapping[str, int]) -> str:
    """Return a chart as one SVG element, its proportions in [0, 1] drawn in per cent from 0 to 100.

    ``styles`` has the place of each model in the legend, which decides marker and dashes; others are not drawn.
    """
    label = f"{chart.title}: {chart.y_label} in per cent against {chart.x_label}"
    lines = [_line(chart, chart.lines[model], model, style) for model, style in styles.items() if model in chart.lines]
    return "\n".join(
        [
            f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(clipped(label))}">',
            *_axes(chart),
            *lines,
            "</svg>",
        ]
    )


def sample_of(model: str, style: int) -> str:
    """Return the sample of a model's line for a legend."""
    return (
        f'<svg class="sample" viewBox="0 0 32 12" aria-hidden="true"><path class="{_class(model, style)}" d="M0 6H32"/>'
        f"{_marker(model, style, 16, 6)}</svg>"
    )


def _within(proportion: float) -> float:
    return min(1.0, max(0.0, proportion))


def _axes(chart: Chart) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for per_cent in (0, 25, 50, 75, 100):
        y = _y(per_cent / 100)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{per_cent}</text>'
    for x, tick in _spread(chart.ticks):
        place = _x(chart, x)
        yield f'<path class="grid" d="M{place:.1f} {bottom}v4"/>'
        yield f'<text x="{place:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(clipped(tick, 12))}</text>'
    middle = (_LEFT + right) / 2
    yield f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(clipped(chart.x_label))}</text>'


def _spread(ticks: Sequence[tuple[float, str]]) -> Sequence[tuple[float, str]]:
    """Return at most seven ticks, evenly chosen."""
    step = -(-len(ticks) // 7)
    return ticks[::step]


def _line(chart: Chart, points: Sequence[Point], model: str, style: int) -> str:
    path, intervals, markers, pen = "", "", "", "M"
    for point in points:
        if point.value is None or not isfinite(point.value):
            # A gap: the line begins anew after it.
            pen = "M"
            continue
        x, y = _x(chart, point.x), _y(point.value)
        path += f"{pen}{x:.1f} {y:.1f}"
        pen = "L"
        markers += _marker(model, style, x, y)
        if point.low is not None and point.high is not None:
            intervals += f"M{x:.1f} {_y(point.low):.1f}V{_y(point.high):.1f}"
    interval = f'<path class="line-{colour_of(model)} interval" d="{intervals}"/>' if intervals else ""
    return (
        f"<g><title>{escape(clipped(model))}</title>{interval}"
        f'<path class="{_class(model, style)}" d="{path or "M0 0"}"/>{markers}</g>'
    )


def _class(model: str, style: int) -> str:
    return f"line-{colour_of(model)}{' dashed' if style >= len(_MARKERS) else ''}"


def _marker(model: str, style: int, x: float, y: float) -> str:
    shape = _MARKERS[style % len(_MARKERS)]
    paths = {
        "circle": f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
        "box": f"M{x - 2.7:.1f} {y - 2.7:.1f}h5.4v5.4h-5.4z",
        "diamond": f"M{x:.1f} {y - 3.8:.1f}l3.8 3.8l-3.8 3.8l-3.8-3.8z",
        "triangle": f"M{x:.1f} {y - 3.6:.1f}l3.5 6h-7z",
    }
    return f'<path class="mark-{colour_of(model)}" d="{paths[shape]}"/>'


def _x(chart: Chart, x: float) -> float:
    first, last = chart.ticks[0][0], chart.ticks[-1][0]
    width = _WIDTH - _LEFT - _RIGHT
    return _LEFT + width * ((x - first) / (last - first) if last > first else 0.5)


def _y(value: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - _within(value))
