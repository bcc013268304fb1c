"""Plot of training histories: losses and validation accuracy by epoch, a thin line a seed and their mean."""

from __future__ import annotations

from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from robench.core.checkpoint import entry_name
from robench.core.errors import IncompleteError
from robench.figures.panels import LinePanel, Plot, Series
from robench.leaderboard.board import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from robench.training.history import Epoch, TrainingHistory

    Read = Callable[[Epoch], float | None]


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
