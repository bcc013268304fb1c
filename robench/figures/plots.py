"""Plots of a leaderboard and of training histories.

A leaderboard's curves and profiles are drawn as they are, its means over training seeds as points; of histories losses
and validation accuracy by epoch, a thin line a seed and their mean.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from robench.core.checkpoint import entry_name
from robench.core.errors import IncompleteError
from robench.core.inert import NOTE_WIDTH, clipped
from robench.figures.panels import LinePanel, Plot, SeedPanel, SeedRow, Series
from robench.leaderboard.board import Point
from robench.leaderboard.curves import MOST_LINES, chosen_lines
from robench.reports.grid import cell_text
from robench.reports.seeds import SEED_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from robench.core.report import Cell
    from robench.leaderboard.board import BoardColumn, BoardRow, Chart, Leaderboard
    from robench.training.history import Epoch, TrainingHistory

    Read = Callable[[Epoch], float | None]

_IN_PER_CENT = ("share", "ratio")


def budget_plot(board: Leaderboard, *, all_models: bool) -> Plot:
    """Return accuracies against the budgets of sweeps and the distances of minimum-norm attacks.

    With ``all_models`` every row of the leaderboard is drawn instead of the eight best by their mean.

    Raises:
        IncompleteError: no sweep or minimum-norm attack of the suites has a number.
    """
    intervals = {
        column.interval for column in board.columns for chart in board.curves if column.metric == chart.y_label
    }
    return _line_plot(board, board.curves, "sweep or accuracy at distances", all_models, sorted(intervals))


def corruption_plot(board: Leaderboard, *, all_models: bool) -> Plot:
    """Return the accuracy under each type of corruption against its severity, a panel a type.

    With ``all_models`` every row of the leaderboard is drawn instead of the eight best by their mean.

    Raises:
        IncompleteError: no corruption of the suites has a number.
    """
    return _line_plot(board, board.profiles, "type of corruption", all_models, [])


def seeds_plot(board: Leaderboard) -> Plot:
    """Return each column's numbers of single training seeds as points, with their means and intervals.

    Raises:
        IncompleteError: no model has a number.
    """
    panels = tuple(
        SeedPanel(
            title=column.label,
            x_label=_axis_of(column),
            rows=tuple(_seed_row(row.model, row.cells[column.key], column.unit) for row in board.rows),
        )
        for column in board.columns
        if any(row.cells[column.key].estimate for row in board.rows)
    )
    if not panels:
        raise _nothing(board, "column")
    several = any(row.seeds for row in board.rows)
    notes = [f"Whiskers: {SEED_INTERVAL}."] if several else []
    return Plot(
        panels=panels,
        models=tuple(row.model for row in board.rows),
        labels=tuple(map(_label, board.rows)),
        notes=(*notes, *_notes(board, board.rows)),
    )


def _line_plot(board: Leaderboard, charts: Sequence[Chart], noun: str, all_models: bool, intervals: list[str]) -> Plot:
    if not charts:
        raise _nothing(board, noun)
    best = chosen_lines(charts, None)
    in_order = [row.model for row in board.rows if row.model in best]
    models = in_order if all_models else best[:MOST_LINES]
    rows = {row.model: row for row in board.rows}
    groups = {chart.group for chart in charts}
    drawn = [rows[model] for model in models]
    return Plot(
        panels=tuple(_line_panel(chart, models, several=len(groups) > 1) for chart in charts),
        models=tuple(models),
        labels=tuple(_label(row) for row in drawn),
        notes=(*_whiskers(drawn, intervals), *_notes(board, drawn)),
        left_out=tuple(row.model for row in board.rows if row.model not in models),
    )


def _line_panel(chart: Chart, models: Iterable[str], *, several: bool) -> LinePanel:
    return LinePanel(
        title=f"{chart.group}: {chart.title}" if several else chart.title,
        x_label=f"{chart.x_label} ({chart.x_unit})" if chart.x_unit else chart.x_label,
        y_label=f"{chart.y_label} (%)",
        ticks=chart.ticks,
        series=tuple(
            Series(model=model, points=tuple(map(_in_per_cent, chart.lines[model])))
            for model in models
            if model in chart.lines
        ),
        is_per_cent=True,
    )


def _in_per_cent(point: Point) -> Point:
    value, low, high = (None if each is None else 100 * each for each in (point.value, point.low, point.high))
    return replace(point, value=value, low=low, high=high)


def _seed_row(model: str, cell: Cell, unit: str) -> SeedRow:
    estimate = cell.estimate
    if estimate is None or not all(map(isfinite, (estimate.value, *estimate.of_seeds))):
        return SeedRow(model=model, gap=cell_text(cell))
    factor = 100 if unit in _IN_PER_CENT else 1
    if not estimate.of_seeds:
        return SeedRow(model=model, seeds=(factor * estimate.value,))
    return SeedRow(
        model=model,
        seeds=tuple(factor * value for value in estimate.of_seeds),
        mean=factor * estimate.value,
        low=None if estimate.low is None else factor * estimate.low,
        high=None if estimate.high is None else factor * estimate.high,
    )


def _axis_of(column: BoardColumn) -> str:
    # Other units are in the title of the metric, such as "median distance (pixels)".
    return f"{column.metric} (%)" if column.unit in _IN_PER_CENT else column.metric


def _label(row: BoardRow) -> str:
    # A coupled model's numbers hold at its batch size only.
    return row.model if row.batch_size is None else f"{clipped(row.model)} (batch size {row.batch_size})"


def _whiskers(rows: Sequence[BoardRow], intervals: Sequence[str]) -> Iterator[str]:
    if not intervals:
        return
    over_examples = " or ".join(intervals)
    if not any(row.seeds for row in rows):
        yield f"Whiskers: {over_examples} over examples."
    elif all(row.seeds for row in rows):
        yield f"Whiskers: {SEED_INTERVAL}."
    else:
        yield f"Whiskers: {SEED_INTERVAL}; of one checkpoint, {over_examples} over examples."


def _notes(board: Leaderboard, rows: Sequence[BoardRow]) -> Iterator[str]:
    yield f"{clipped(board.title)}."
    if limits := sorted({row.limit for row in rows if row.limit is not None}):
        yield f"First {' or '.join(map(str, limits))} examples of each condition."
    if any(row.all_examples for row in rows):
        yield "All examples of each dataset, instead of a suite's number."
    if flagged := [f"{clipped(row.model)}: {_flag_names(row)}" for row in rows if row.raised]:
        yield clipped(f"Flags are raised for {'; '.join(flagged)}.", NOTE_WIDTH)


def _flag_names(row: BoardRow) -> str:
    return ", ".join(dict.fromkeys(each.flag.name for each in row.raised))


def _nothing(board: Leaderboard, noun: str) -> IncompleteError:
    return IncompleteError(
        f"there is nothing to draw: no {noun} of {clipped(board.title)} has a number for these models. "
        "'robench status' shows what is missing, 'robench run' measures it; or choose another suite or --results."
    )


def training_plot(histories: Sequence[TrainingHistory]) -> Plot:
    """Return the training loss, and the loss and accuracy on validation images where there are any, by epoch.

    Histories of one entry, ``NAME`` and ``NAME@SEED``, share a style: a thin line each, and a thick one for the mean of
    the epochs that all of them have.

    Raises:
        IncompleteError: no history has a finite number.
    """
    entries: dict[str, list[TrainingHistory]] = {}
    for history in histories:
        entries.setdefault(entry_name(history.checkpoint), []).append(history)
    panels = [panel for panel in _panels(entries) if _has_points(panel)]
    if not panels:
        raise IncompleteError("there is nothing to draw: no epoch of these training histories has a finite loss")
    several = [found for found in entries.values() if len(found) > 1]
    datasets = dict.fromkeys(history.dataset for history in histories)
    notes = ["Thin lines: training seeds; thick lines: their means."] if several else []
    return Plot(
        panels=tuple(panels),
        models=tuple(entries),
        labels=tuple(f"{name} ({len(found)} seeds)" if len(found) > 1 else name for name, found in entries.items()),
        notes=(*notes, f"Trained and validated on {', '.join(datasets)}."),
    )


def _panels(entries: dict[str, list[TrainingHistory]]) -> Iterator[LinePanel]:
    kinds: tuple[tuple[str, str, Read], ...] = (
        ("training loss", "loss (nats)", _loss),
        ("validation loss", "loss (nats)", _validation_loss),
        ("validation accuracy", "top-1 accuracy (%)", _accuracy),
    )
    for title, y_label, read in kinds:
        series = tuple(each for name, found in entries.items() for each in _series(name, found, read))
        is_per_cent = read is _accuracy
        yield LinePanel(title=title, x_label="epoch", y_label=y_label, ticks=(), series=series, is_per_cent=is_per_cent)


def _loss(epoch: Epoch) -> float | None:
    return epoch.loss_nats


def _validation_loss(epoch: Epoch) -> float | None:
    return None if epoch.validation is None else epoch.validation.loss_nats


def _accuracy(epoch: Epoch) -> float | None:
    accuracy = None if epoch.validation is None else epoch.validation.top1_accuracy
    return None if accuracy is None else 100 * accuracy


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


def _has_points(panel: LinePanel) -> bool:
    return any(point.value is not None for series in panel.series for point in series.points)
