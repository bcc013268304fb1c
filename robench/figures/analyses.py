"""Plots of analyses: lines over layers or other places, and maps of patches or densities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robench.analyses.over_epochs import EPOCH, along_epochs
from robench.analyses.results import INTERVAL, Analysed, Means, Numbers, means_of
from robench.core.checkpoint import entry_name
from robench.core.errors import IncompleteError, UsageError
from robench.figures.plots import LinePanel, MapPanel, Plot, Series
from robench.leaderboard.board import Point
from robench.reports.seeds import SEED_INTERVAL, t_interval

# A logarithmic axis from this ratio of its largest place to its smallest on.
_MANY_TIMES = 30
# The same of values.
_FAR_MORE = 1000
_SAME = ("analysis", "settings", "dataset", "seed")
_MOST_COLUMNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Means of one statistic of one model, None for a formula, under one condition, and of each of its seeds."""

    label: str
    model: str | None
    numbers: Numbers
    seeds: tuple[Means, ...]

    @property
    def means(self) -> Means:
        """Return the means over the seeds with their interval; of a single seed its own."""
        first = self.seeds[0]
        if len(self.seeds) == 1:
            return first
        values = np.stack([each.values for each in self.seeds])
        low, high = np.apply_along_axis(lambda each: np.array(t_interval(list(each))), 0, values)
        return Means(axes=first.axes, values=values.mean(axis=0), low=low, high=high, num_examples=first.num_examples)


def analysis_plot(results: Sequence[Analysed]) -> Plot:
    """Return the plot of results of one analysis: maps of each layer if it has any, or else a panel for each statistic.

    Results over the epochs of trainings are lines along epochs, of means over layers.

    Raises:
        UsageError: the results are of several analyses, settings or datasets, or of different examples.
        IncompleteError: there is nothing to draw.
    """
    _check_alike(results)
    results = along_epochs(results)
    if not results[0].numbers:
        raise IncompleteError(
            f"{results[0].title} has no number for each layer or head to draw over epochs: name the files of one epoch"
        )
    groups: dict[str, list[_Line]] = {}
    for numbers in results[0].numbers:
        groups.setdefault(numbers.statistic.beside or numbers.name, []).extend(_lines(results, numbers))
    drawn = [lines for lines in groups.values() if lines[0].means.axes]
    by_line = [found for lines in drawn for line in lines if (found := list(_maps(line)))]
    maps = [panel for found in by_line for panel in found]
    panels: Sequence[LinePanel | MapPanel] = maps or [
        panel for name, lines in groups.items() for panel in _line_panels(name, lines)
    ]
    if not panels:
        raise IncompleteError(f"there is nothing to draw: {results[0].title} has single numbers alone")
    labels = _labels(panels)
    models = {line.label: line.model for lines in groups.values() for line in lines if line.model is not None}
    single = (line for lines in groups.values() for line in lines if not line.means.axes)
    notes = [f"{line.label} = {float(line.means.values):.4g}." for line in single]
    return Plot(
        panels=tuple(panels),
        models=labels,
        labels=labels,
        looks=tuple(models.get(label, place) for place, label in enumerate(labels)),
        notes=(*notes, *_notes(results, has_whiskers=not maps)),
        # The layers of one model in a row.
        columns=len(by_line[0]) if maps and 1 < len(by_line[0]) <= _MOST_COLUMNS else None,
    )


def _labels(panels: Sequence[LinePanel | MapPanel]) -> tuple[str, ...]:
    lines = (series.model for panel in panels if isinstance(panel, LinePanel) for series in panel.series)
    return tuple(dict.fromkeys(lines)) or tuple(panel.title for panel in panels)


def _check_alike(results: Sequence[Analysed]) -> None:
    for fact in _SAME:
        found = list({str(each.facts.get(fact)): None for each in results})
        if len(found) > 1:
            raise UsageError(f"results of one figure must have the same {fact}, got {' and '.join(found)}")
    if len({each.examples for each in results}) > 1:
        raise UsageError("results of one figure must be of the same examples: analyse them with the same --count")


def _lines(results: Sequence[Analysed], wanted: Numbers) -> list[_Line]:
    """Return the lines of one statistic, one for each entry and condition; of a formula one."""
    conditions = {each.facts.get("condition") for each in results}
    groups: dict[tuple[str, str | None], list[Numbers]] = {}
    for each in results:
        model = entry_name(each.facts["model"]) if "model" in each.facts else None
        label = model or wanted.statistic.meaning
        if len(conditions) > 1:
            label = f"{label}, {each.facts['condition']}"
        groups.setdefault((label, model), []).extend(found for found in each.numbers if found.name == wanted.name)
    return [
        _Line(label=label, model=model, numbers=found[0], seeds=tuple(map(means_of, found)))
        for (label, model), found in groups.items()
    ]


def _axis_label(line: _Line) -> str:
    statistic = line.numbers.statistic
    return f"{statistic.meaning} ({statistic.unit})" if statistic.unit else statistic.meaning


def _line_panels(name: str, lines: Sequence[_Line]) -> Iterator[LinePanel]:
    """Yield the panels of one statistic: one, or where there are layers and places one for each layer."""
    first = lines[0].means
    if len(first.axes) == 1:
        yield _line_panel(name, lines, [(line.label, line, ()) for line in lines])
    elif first.axes[:1] == ("layer",):
        for layer in range(len(first.values)):
            title = name if len(first.values) == 1 else f"{name}, layer {layer}"
            yield _line_panel(title, lines, [(line.label, line, (layer,)) for line in lines])
    elif first.axes == ("y", "x"):
        places = [(line, row, y) for line in lines for row, y in enumerate(line.numbers.places("y"))]
        yield _line_panel(
            name, lines, [(f"{line.numbers.statistic.y} = {y:g}", line, (row,)) for line, row, y in places]
        )


def _line_panel(title: str, lines: Sequence[_Line], cuts: Sequence[tuple[str, _Line, tuple[int, ...]]]) -> LinePanel:
    """Return a panel of lines; each is given by its label and the place of its values on the axes before the last."""
    numbers = lines[0].numbers
    axis = lines[0].means.axes[-1]
    series: list[Series] = []
    for label, line, index in cuts:
        places = line.numbers.places(axis)
        if len(line.seeds) > 1:
            series += [_series(label, places, each, index, is_seed=True) for each in line.seeds]
        series.append(_series(label, places, line.means, index))
    values = [point.value for each in series for point in each.points if point.value is not None]
    x_label = numbers.statistic.x if axis == "x" else axis
    return LinePanel(
        title=title.replace("_", " "),
        x_label=x_label,
        y_label=_axis_label(lines[0]),
        ticks=(),
        series=tuple(series),
        is_per_cent=False,
        is_logarithmic=bool(x_label != EPOCH and places[0] > 0 and places[-1] / places[0] > _MANY_TIMES),
        is_logarithmic_in_y=min(values) > 0 and max(values) / min(values) > _FAR_MORE,
    )


def _series(
    label: str, places: NDArray[np.float64], means: Means, index: tuple[int, ...], *, is_seed: bool = False
) -> Series:
    values, lows, highs = (each[index] for each in (means.values, means.low, means.high))
    points = tuple(
        Point(
            x=float(place),
            value=float(value),
            low=None if np.isnan(low) else float(low),
            high=None if np.isnan(high) else float(high),
        )
        for place, value, low, high in zip(places, values, lows, highs, strict=True)
    )
    return Series(model=label, points=points, is_seed=is_seed)


def _maps(line: _Line) -> Iterator[MapPanel]:
    """Yield the maps of one model or formula, one for each layer; none of a statistic without places in a plane."""
    means, numbers = line.means, line.numbers
    if not numbers.statistic.is_map:
        return
    has_layers = means.axes[0] == "layer"
    # Rows of patches count from the top; coordinates rise.
    step = 1 if numbers.y is None else -1
    for layer, values in enumerate(means.values if has_layers else means.values[None]):
        yield MapPanel(
            title=f"{line.label}, layer {layer}" if has_layers else line.label,
            x_label=numbers.statistic.x,
            y_label=numbers.statistic.y,
            x=tuple(map(float, numbers.places("x"))),
            y=tuple(map(float, numbers.places("y")))[::step],
            values=tuple(tuple(map(float, row)) for row in values)[::step],
            label=_axis_label(line),
            has_contours=numbers.y is not None,
        )


def _notes(results: Sequence[Analysed], *, has_whiskers: bool) -> Iterator[str]:
    facts = results[0].facts
    if "model" not in facts:
        samples = f", {len(results[0].examples):,} random samples; whiskers: {INTERVAL}" if results[0].examples else ""
        yield f"Analysis {facts['analysis']}, of formulas{samples}."
        return
    conditions = list(dict.fromkeys(each.facts["condition"] for each in results))
    yield f"{len(results[0].examples)} examples of {facts['dataset']}, {' and '.join(conditions)}."
    models = {each.facts["model"] for each in results}
    has_seeds = len(set(map(entry_name, models))) < len(models)
    yield f"Means over {'layers, ' if 'epochs' in facts else ''}examples and heads."
    if has_whiskers:
        yield f"Whiskers: {SEED_INTERVAL if has_seeds else INTERVAL}."
