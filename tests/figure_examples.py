"""Made-up boards and histories for figures, and what was drawn read back from matplotlib's artists."""

from collections.abc import Sequence
from functools import lru_cache
from math import nan
from pathlib import Path

import numpy as np
from leaderboard_examples import MASKED, adv_suite, fill, shift_suite
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from robench.core.suite import Suite
from robench.leaderboard import Leaderboard, leaderboard_of
from robench.store import MemoryStore
from robench.training.base import ValidationScores
from robench.training.history import Epoch, TrainingHistory

# Of the last model, half of every second condition is missing: of the sweep too.
SKILLS = {"vit": 0.5, "vit@1": 0.52, "vit@2": 0.45, "symvit": 0.6, "rpc": 0.3}


def shift(**changes: object) -> Suite:
    """Return a suite of a sweep and ten corruptions, in two shards a condition."""
    return shift_suite(batches_per_shard=3, **changes)


@lru_cache
def board(*, average_seeds: bool = False, several: bool = False) -> Leaderboard:
    """Return a board of a sweep and ten corruptions, and of a second suite where there are several."""
    store = MemoryStore()
    fill(store, shift(), SKILLS, half=["rpc"])
    fill(store, adv_suite(), SKILLS, flags={"symvit": (MASKED,)})
    suites = [shift(), *([shift(name="shift-2"), adv_suite()] if several else [])]
    if several:
        fill(store, suites[1], SKILLS)
    return leaderboard_of(suites, store, average_seeds=average_seeds, is_tested=False)


def history(
    name: str = "mine", losses: Sequence[float] = (2.0, 1.0, 0.5), accuracies: Sequence[float | None] = (0.1, 0.5, 0.75)
) -> TrainingHistory:
    """Return the history of a training; None in place of an accuracy is an epoch without validation."""
    epochs = tuple(
        Epoch(
            epoch=number,
            loss_nats=loss,
            validation=None
            if accuracy is None
            else ValidationScores(top1_accuracy=accuracy, loss_nats=loss + 0.25, num_examples=8),
        )
        for number, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True), start=1)
    )
    return TrainingHistory(checkpoint=name, dataset="digits", num_epochs=len(losses), epochs=epochs)


def write_history(path: Path, name: str, losses: Sequence[float] = (2.0, 1.0, 0.5)) -> Path:
    """Write a history as training keeps it."""
    from robench.training.base import EpochReport
    from robench.training.history import History

    kept = History(path, checkpoint=name, dataset="digits")
    for epoch, loss in enumerate(losses, start=1):
        scores = ValidationScores(top1_accuracy=epoch / len(losses), loss_nats=loss, num_examples=8)
        kept.add(
            EpochReport(epoch=epoch, num_epochs=len(losses), loss_nats=loss, examples_per_second=1.0, validation=scores)
        )
    return path


def points_of(container: ErrorbarContainer) -> tuple[list[float], list[float]]:
    """Return the places and values of a line with whiskers; NaN is a gap."""
    line = container.lines[0]
    return list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))


def whiskers_of(container: ErrorbarContainer, axis: int = 1) -> list[tuple[float, float]]:
    """Return the ends of the whiskers along an axis, one pair a point; NaN where there is none."""
    (bars,) = container.lines[2]
    segments = bars.get_segments()
    return [tuple(map(float, segment[:, axis])) if len(segment) else (nan, nan) for segment in segments]


def tick_labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_xticklabels()]


def texts_of(figure: Figure) -> list[str]:
    """Return every text of a figure that is laid out, its legend's too."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def outside(figure: Figure) -> list[str]:
    """Return the texts that leave the figure, and legends that cover a panel."""
    from matplotlib.text import Text

    from robench.figures.style import settings

    with settings():
        figure.draw_without_rendering()
        whole = figure.bbox
        # Ticks beyond the limits of an axis exist and are not drawn.
        undrawn = {
            text
            for axes in figure.axes
            for text in axes.get_xticklabels()
            if not min(axes.get_xlim()) <= text.get_position()[0] <= max(axes.get_xlim())
        }
        found = []
        for text in set(figure.findobj(Text)) - undrawn:
            box = text.get_window_extent()
            fits = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1
            if text.get_visible() and text.get_text() and not fits:
                found.append(text.get_text())
        for legend in figure.legends:
            box = legend.get_window_extent()
            found += ["legend" for axes in figure.axes if box.overlaps(axes.get_window_extent())]
    return found


def same(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether numbers are equal to 1e-9; NaN equals NaN."""
    return np.allclose(first, second, rtol=0, atol=1e-9, equal_nan=True)
