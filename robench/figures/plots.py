"""Plots of a leaderboard and of training histories, before they are drawn: panels of lines, or of points of seeds.

A leaderboard's curves and profiles are drawn as they are, its means over training seeds as points; of histories losses
and validation accuracy by epoch, a thin line a seed and their mean.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean

from robench.core.checkpoint import entry_name
from robench.core.errors import IncompleteError, UsageError
from robench.core.inert import NOTE_WIDTH, clipped
from robench.core.report import Cell
from robench.leaderboard.board import BoardColumn, BoardRow, Chart, Leaderboard, Point
from robench.leaderboard.curves import MOST_LINES, chosen_lines
from robench.reports.grid import cell_text
from robench.reports.seeds import SEED_INTERVAL
from robench.training.history import Epoch, TrainingHistory

Read = Callable[[Epoch], float | None]


MOST_PANELS = 60
MOST_MODELS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Line of one model, points ascending, those without a value gaps.

    ``is_seed`` marks one of several training seeds, whose mean is another line of the same model.
    """

    model: str
    points: tuple[Point, ...]
    is_seed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePanel:
    """Panel of lines; ``ticks`` are places on the axis with their labels, ascending, empty where the axis counts.

    ``has_diagonal`` draws the line of equal numbers on both axes.
    """

    title: str
    x_label: str
    y_label: str
    ticks: tuple[tuple[float, str], ...]
    series: tuple[Series, ...]
    is_per_cent: bool
    is_logarithmic: bool = False
    is_logarithmic_in_y: bool = False
    has_diagonal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRow:
    """Numbers of one model in a panel of points: those of its seeds, with the mean and its interval.

    A single checkpoint has one number, no mean, and the interval over examples. ``gap`` is the text in place of numbers
    that are missing or infinite.
    """

    model: str
    seeds: tuple[float, ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPanel:
    """Panel with a row of points for each model, from the top, and a line at ``origin`` if there is one."""

    title: str
    x_label: str
    rows: tuple[SeedRow, ...]
    origin: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Point of one model, with the bounds of its intervals along both axes; None where there is no interval."""

    model: str
    x: float
    y: float
    x_bounds: tuple[float, float] | None = None
    y_bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePanel:
    """Panel with a point for each model over two numbers."""

    title: str
    x_label: str
    y_label: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPanel:
    """Panel of numbers at evenly spaced places in the plane, as colours; ``label`` is that of their scale.

    ``values`` are rows of numbers, the first at the top. Places with names have their numbers
    printed in them.
    """

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    label: str
    has_contours: bool = False
    x_names: tuple[str, ...] = ()
    y_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Plot of one or several panels of one kind, over the same models.

    Attributes:
        columns: number of panels in a row; None for a number that follows from theirs.
        models: in the order of legend and styles; ``labels``: their names in the legend where these say more.
        looks: numbers of their colours and markers, or models that have these; empty for the models themselves.
        left_out: models that are not drawn, since there are too many for one legend; ``not_curves``: conditions.
    """

    panels: tuple[LinePanel | SeedPanel | MapPanel | PlacePanel, ...]
    models: tuple[str, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    not_curves: tuple[str, ...] = ()
    columns: int | None = None
    looks: tuple[int | str, ...] = ()


def with_panels(plot: Plot, wanted: Sequence[str]) -> Plot:
    """Return the plot with the panels whose titles contain one of the texts, or with all if there are no texts.

    Raises:
        UsageError: no title contains one of the texts, or there are too many panels or models for one figure.
    """
    titles = [panel.title for panel in plot.panels]
    for text in wanted:
        if not any(text in title for title in titles):
            shown = ", ".join(clipped(title) for title in titles[:MOST_PANELS])
            raise UsageError(f"no panel's title contains {text!r}; there are: {shown}")
    kept = tuple(panel for panel in plot.panels if not wanted or any(text in panel.title for text in wanted))
    if len(kept) > MOST_PANELS:
        raise UsageError(f"{len(kept)} panels are too many for one figure; choose at most {MOST_PANELS} with --panel")
    if len(plot.models) > MOST_MODELS:
        raise UsageError(f"{len(plot.models)} models are too many for one figure; name at most {MOST_MODELS}")
    return replace(plot, panels=kept)


IN_PER_CENT = ("share", "ratio")


def budget_plot(board: Leaderboard, *, all_models: bool) -> Plot:
    """Return accuracies against the budgets of attacks and the distances of minimum-norm attacks, from the clean one.

    ``all_models`` draws every row of the leaderboard instead of the eight best by their mean.

    Raises:
        IncompleteError: there is nothing to draw, here as in the other plots.
    """
    return _line_plot(board, board.curves, "attack at several budgets or distances", all_models, board.left_out)


def corruption_plot(board: Leaderboard, *, all_models: bool) -> Plot:
    """Return numbers under each type of corruption or disturbance against its severity; see ``budget_plot``."""
    return _line_plot(board, (*board.profiles, *board.grades), "type of corruption", all_models)


def queries_plot(board: Leaderboard, *, all_models: bool) -> Plot:
    """Return numbers under attacks against their steps or queries, a panel an attack and metric."""
    return _line_plot(board, board.lengths, "attack with several numbers of steps or queries", all_models)


def seeds_plot(board: Leaderboard) -> Plot:
    """Return each column's numbers of single training seeds as points, with their means and intervals."""
    panels = tuple(
        SeedPanel(
            title=column.label,
            x_label=axis_of(column),
            rows=tuple(_seed_row(row.model, row.cells[column.key], column.unit) for row in board.rows),
        )
        for column in board.columns
        if any(row.cells[column.key].estimate for row in board.rows)
    )
    if not panels:
        raise nothing_of(board, "column")
    intervals = sorted({column.interval for column in board.columns if column.interval})
    notes = [*whiskers_of(board.rows, intervals), *_counts(board.rows)]
    return Plot(
        panels=panels,
        models=tuple(row.model for row in board.rows),
        labels=tuple(map(label_of, board.rows)),
        notes=(*notes, *notes_of(board, board.rows)),
    )


def _line_plot(
    board: Leaderboard, charts: Sequence[Chart], noun: str, all_models: bool, not_curves: tuple[str, ...] = ()
) -> Plot:
    if not charts:
        raise nothing_of(board, noun, not_curves)
    best = chosen_lines(charts, None)
    models = [row.model for row in board.rows if row.model in best] if all_models else best[:MOST_LINES]
    rows = {row.model: row for row in board.rows}
    groups = {chart.group for chart in charts}
    intervals = sorted({each.interval for each in board.columns if any(each.key in chart.columns for chart in charts)})
    drawn = [rows[model] for model in models]
    return Plot(
        panels=tuple(_line_panel(chart, models, several=len(groups) > 1) for chart in charts),
        models=tuple(models),
        labels=tuple(label_of(row) for row in drawn),
        notes=(*whiskers_of(drawn, intervals), *_counts(drawn), *notes_of(board, drawn)),
        left_out=tuple(row.model for row in board.rows if row.model not in models),
        not_curves=not_curves,
    )


def _line_panel(chart: Chart, models: Iterable[str], *, several: bool) -> LinePanel:
    is_per_cent = chart.unit in IN_PER_CENT
    return LinePanel(
        title=f"{chart.group}: {chart.title}" if several else chart.title,
        x_label=f"{chart.x_label} ({chart.x_unit})" if chart.x_unit else chart.x_label,
        y_label=f"{chart.y_label} (%)" if is_per_cent else chart.y_label,
        ticks=chart.ticks,
        series=tuple(
            Series(model=model, points=tuple(map(_in_per_cent, points) if is_per_cent else points))
            for model in models
            if (points := chart.lines.get(model)) is not None
        ),
        is_per_cent=is_per_cent,
        is_logarithmic=chart.is_logarithmic,
    )


def _in_per_cent(point: Point) -> Point:
    value, low, high = (None if each is None else 100 * each for each in (point.value, point.low, point.high))
    return replace(point, value=value, low=low, high=high)


def _seed_row(model: str, cell: Cell, unit: str) -> SeedRow:
    estimate = cell.estimate
    if estimate is None or not all(map(isfinite, (estimate.value, *estimate.of_seeds))):
        return SeedRow(model=model, gap=cell_text(cell))
    factor = 100 if unit in IN_PER_CENT else 1
    return SeedRow(
        model=model,
        seeds=tuple(factor * value for value in estimate.of_seeds or (estimate.value,)),
        mean=factor * estimate.value if estimate.of_seeds else None,
        low=None if estimate.low is None else factor * estimate.low,
        high=None if estimate.high is None else factor * estimate.high,
    )


def axis_of(column: BoardColumn) -> str:
    """Return the label of an axis of a column's numbers, with their unit."""
    # Other units are in the title of the metric, such as "median distance (pixels)".
    return f"{column.metric} (%)" if column.unit in IN_PER_CENT else column.metric


def label_of(row: BoardRow) -> str:
    """Return a model's name in a legend."""
    # A coupled model's numbers hold at its batch size only.
    return row.model if row.batch_size is None else f"{clipped(row.model)} (batch size {row.batch_size})"


def whiskers_of(rows: Sequence[BoardRow], intervals: Sequence[str]) -> Iterator[str]:
    """Yield a note on the kinds of the rows' intervals."""
    if not intervals:
        return
    over_examples = " or ".join(intervals)
    if not any(row.seeds for row in rows):
        yield f"Whiskers: {over_examples} over examples."
    elif all(row.seeds for row in rows):
        yield f"Whiskers: {SEED_INTERVAL}."
    else:
        yield f"Whiskers: {SEED_INTERVAL}; of one checkpoint, {over_examples} over examples."


def _counts(rows: Sequence[BoardRow]) -> Iterator[str]:
    """Yield a note on the number of examples behind the rows' numbers."""
    counts = sorted({cell.num_examples for row in rows for cell in row.cells.values() if cell.estimate})
    if counts:
        yield f"n = {' or '.join(f'{count:,}' for count in counts)} examples a number."


def notes_of(board: Leaderboard, rows: Sequence[BoardRow]) -> Iterator[str]:
    """Yield the suites, limits and raised flags behind the rows."""
    yield f"{clipped(board.title)}."
    if limits := sorted({row.limit for row in rows if row.limit is not None}):
        yield f"First {' or '.join(map(str, limits))} examples of each condition."
    if any(row.all_examples for row in rows):
        yield "All examples of each dataset, instead of a suite's number."
    if flagged := [
        f"{clipped(row.model)}: {', '.join(dict.fromkeys(flag.name for flag in row.raised))}"
        for row in rows
        if row.raised
    ]:
        yield clipped(f"Flags are raised for {'; '.join(flagged)}.", NOTE_WIDTH)


def nothing_of(board: Leaderboard, noun: str, not_curves: Sequence[str] = ()) -> IncompleteError:
    """Return the error that no model has a number to draw."""
    others = f" Not drawn: {clipped(', '.join(not_curves), NOTE_WIDTH)}." if not_curves else ""
    return IncompleteError(
        f"there is nothing to draw: no {noun} of {clipped(board.title)} has a number for these models.{others} "
        "'robench status' shows what is missing, 'robench run' measures it; or choose another suite or --results."
    )


def training_plot(histories: Sequence[TrainingHistory]) -> Plot:
    """Return the training loss, and the loss and accuracy on validation images where there are any, by epoch.

    Histories of one entry, ``NAME`` and ``NAME@SEED``, share a style: a thin line each, and a thick one for the mean of
    the epochs that all of them have.
    """
    entries: dict[str, list[TrainingHistory]] = {}
    for history in histories:
        entries.setdefault(entry_name(history.checkpoint), []).append(history)
    panels = [
        panel
        for panel in _panels(entries)
        if any(point.value is not None for series in panel.series for point in series.points)
    ]
    if not panels:
        raise IncompleteError("there is nothing to draw: no epoch of these training histories has a finite loss")
    datasets = dict.fromkeys(history.dataset for history in histories)
    last = [history.epochs[-1].validation for history in histories]
    counts = sorted({each.num_examples for each in last if each is not None})
    n = f" (n = {' or '.join(f'{count:,}' for count in counts)})" if counts else ""
    notes = ["Thin lines: training seeds; thick lines: their means."] if len(entries) < len(histories) else []
    return Plot(
        panels=tuple(panels),
        models=tuple(entries),
        labels=tuple(f"{name} ({len(found)} seeds)" if len(found) > 1 else name for name, found in entries.items()),
        notes=(*notes, f"Trained and validated on {', '.join(datasets)}{n}."),
    )


def _panels(entries: dict[str, list[TrainingHistory]]) -> Iterator[LinePanel]:
    def accuracy(epoch: Epoch) -> float | None:
        found = None if epoch.validation is None else epoch.validation.top1_accuracy
        return None if found is None else 100 * found

    def loss(epoch: Epoch) -> float | None:
        return None if epoch.validation is None else epoch.validation.loss_nats

    kinds: tuple[tuple[str, str, Read], ...] = (
        ("training loss", "loss (nats)", lambda epoch: epoch.loss_nats),
        ("validation loss", "loss (nats)", loss),
        ("validation accuracy", "top-1 accuracy (%)", accuracy),
    )
    for title, y_label, read in kinds:
        series = tuple(each for name, found in entries.items() for each in _series(name, found, read))
        is_per_cent = read is accuracy
        yield LinePanel(title=title, x_label="epoch", y_label=y_label, ticks=(), series=series, is_per_cent=is_per_cent)


def _series(name: str, histories: Sequence[TrainingHistory], read: Read) -> Iterator[Series]:
    lines = [{epoch.epoch: _finite(read(epoch)) for epoch in history.epochs} for history in histories]
    if len(lines) == 1:
        yield _one(name, lines[0])
        return
    for line in lines:
        yield _one(name, line, is_seed=True)
    mean: dict[int, float | None] = {}
    for epoch in sorted(set().union(*lines)):
        values = [value for line in lines if (value := line.get(epoch)) is not None]
        mean[epoch] = fmean(values) if len(values) == len(lines) else None
    yield _one(name, mean)


def _one(name: str, line: dict[int, float | None], *, is_seed: bool = False) -> Series:
    points = tuple(Point(x=float(epoch), value=value) for epoch, value in line.items())
    return Series(model=name, points=points, is_seed=is_seed)


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
