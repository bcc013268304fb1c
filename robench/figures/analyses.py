"""Plots of analyses: lines over layers or other places, and maps of patches or densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robench.analyses.results import INTERVAL, Analysed, Means, Numbers, means_of
from robench.core.checkpoint import entry_name
from robench.core.errors import IncompleteError, UsageError
from robench.figures.plots import LinePanel, MapPanel, Plot, Series
from robench.leaderboard.board import Point
from robench.reports.seeds import SEED_INTERVAL, t_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A logarithmic axis from this ratio of its largest place to its smallest on.
_MANY_TIMES = 30
_SAME = ("analysis", "settings", "dataset", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Means of one statistic of one model and condition, with those of its seeds where there are several."""

    label: str
    numbers: Numbers
    seeds: tuple[Means, ...]

    @property
    def means(self) -> Means:
        """Return the means over the seeds, with the interval over seeds; of one seed its own."""
        if len(self.seeds) == 1:
            return self.seeds[0]
        values = np.stack([each.values for each in self.seeds])
        bounds = np.apply_along_axis(lambda each: np.array(t_interval(list(each))), 0, values)
        first = self.seeds[0]
        return Means(
            axes=first.axes, values=values.mean(axis=0), low=bounds[0], high=bounds[1], num_examples=first.num_examples
        )


def analysis_plot(results: Sequence[Analysed]) -> Plot:
    """Return the plot of an analysis: a panel a statistic, a map a layer and model, or lines where there is one axis.

    Raises:
        UsageError: the results are of several analyses, settings or datasets, or of different numbers of examples.
        IncompleteError: there is nothing to draw.
    """
    _check_alike(results)
    names = [each.name for each in results[0].numbers]
    panels: list[LinePanel | MapPanel] = []
    notes: list[str] = []
    for name in names:
        lines = _lines(results, name)
        panels += _panels(lines)
        if not lines[0].means.axes:
            notes += [f"{line.label}: {name} = {float(line.means.values):.4g}." for line in lines]
    # Kinds of panels are not mixed in one figure: maps where there are any.
    maps = [panel for panel in panels if isinstance(panel, MapPanel)]
    kept = maps or panels
    if not kept:
        raise IncompleteError(f"there is nothing to draw: {results[0].title} has single numbers alone")
    labels = tuple(dict.fromkeys(line.label for name in names for line in _lines(results, name)))
    return Plot(
        panels=tuple(kept),
        models=labels,
        labels=labels,
        notes=(*notes, *_notes(results)),
        columns=_columns(maps) if maps else None,
    )


def _check_alike(results: Sequence[Analysed]) -> None:
    for fact in _SAME:
        found = list({str(each.facts.get(fact)): None for each in results})
        if len(found) > 1:
            raise UsageError(f"results of one figure must have the same {fact}, got {' and '.join(found)}")
    if len({each.examples for each in results}) > 1:
        raise UsageError("results of one figure must be of the same examples: analyse them with the same --count")


def _lines(results: Sequence[Analysed], name: str) -> list[_Line]:
    conditions = {each.facts.get("condition") for each in results}
    groups: dict[str, list[Numbers]] = {}
    for each in results:
        label = entry_name(each.facts["model"]) if "model" in each.facts else name
        if len(conditions) > 1:
            label = f"{label}, {each.facts['condition']}"
        groups.setdefault(label, []).extend(found for found in each.numbers if found.name == name)
    return [
        _Line(label=label, numbers=found[0], seeds=tuple(map(means_of, found)))
        for label, found in groups.items()
        if found
    ]


def _panels(lines: Sequence[_Line]) -> Iterator[LinePanel | MapPanel]:
    first = lines[0]
    axes, statistic = first.means.axes, first.numbers.statistic
    label = f"{statistic.meaning} ({statistic.unit})" if statistic.unit else statistic.meaning
    if axes[-2:] == ("y", "x"):
        for line in lines:
            yield from _maps(line, label)
    elif len(axes) == 1:
        yield _line_panel(lines, first.numbers.name, label, None)
    elif axes[:1] == ("layer",) and len(axes) == 2:
        for layer in range(first.means.values.shape[0]):
            yield _line_panel(lines, f"layer {layer}", label, layer)


def _line_panel(lines: Sequence[_Line], title: str, label: str, layer: int | None) -> LinePanel:
    numbers = lines[0].numbers
    axis = lines[0].means.axes[-1]
    places = numbers.places(axis)
    series: list[Series] = []
    for line in lines:
        if len(line.seeds) > 1:
            series += [_series(line.label, places, each, layer, is_seed=True) for each in line.seeds]
        series.append(_series(line.label, places, line.means, layer))
    return LinePanel(
        title=title,
        x_label=numbers.statistic.x if axis == "x" else axis,
        y_label=label,
        ticks=(),
        series=tuple(series),
        is_per_cent=False,
        is_logarithmic=bool(places[0] > 0 and places[-1] / places[0] > _MANY_TIMES),
    )


def _series(
    label: str, places: Sequence[float] | np.ndarray, means: Means, layer: int | None, *, is_seed: bool = False
) -> Series:
    value, low, high = (each if layer is None else each[layer] for each in (means.values, means.low, means.high))
    points = tuple(
        Point(
            x=float(place),
            value=float(value[index]),
            low=None if np.isnan(low[index]) else float(low[index]),
            high=None if np.isnan(high[index]) else float(high[index]),
        )
        for index, place in enumerate(places)
    )
    return Series(model=label, points=points, is_seed=is_seed)


def _maps(line: _Line, label: str) -> Iterator[MapPanel]:
    means, numbers = line.means, line.numbers
    layers = means.values if means.axes[0] == "layer" else means.values[None]
    for place, values in enumerate(layers):
        yield MapPanel(
            title=f"{line.label}, layer {place}" if means.axes[0] == "layer" else numbers.name,
            x_label=numbers.statistic.x,
            y_label=numbers.statistic.y,
            x=tuple(map(float, numbers.places("x"))),
            y=tuple(map(float, numbers.places("y"))),
            values=tuple(tuple(map(float, row)) for row in values),
            label=label,
        )


def _columns(maps: Sequence[MapPanel]) -> int | None:
    """Return the number of maps in a row: the layers of one model."""
    count = sum(panel.title.rpartition(", layer ")[0] == maps[0].title.rpartition(", layer ")[0] for panel in maps)
    return count if 1 < count <= 12 else None


def _notes(results: Sequence[Analysed]) -> Iterator[str]:
    facts = results[0].facts
    if "model" not in facts:
        yield f"Analysis {facts['analysis']}, from formulas alone."
        return
    conditions = sorted({each.facts["condition"] for each in results})
    yield f"{len(results[0].examples)} examples of {facts['dataset']}, {' and '.join(conditions)}."
    models = {each.facts["model"] for each in results}
    has_seeds = len(set(map(entry_name, models))) < len(models)
    yield f"Means over examples and heads; whiskers: {SEED_INTERVAL if has_seeds else INTERVAL}."
