"""Reliability diagram: accuracy against confidence in 15 bins, beside the diagonal of perfect calibration."""

from collections.abc import Sequence

import numpy as np

from robench.core.columns import Outcomes, fields_of
from robench.core.errors import IncompleteError, UsageError
from robench.core.inert import clipped
from robench.core.suite import Suite, views_of
from robench.figures.plots import LinePanel, Plot, Series
from robench.leaderboard.board import Point
from robench.metrics.contributions import NUM_BINS, bins_of
from robench.metrics.intervals import INTERVAL, wilson_interval
from robench.reports.results import Results
from robench.reports.selection import cover
from robench.tasks import TASKS

FEWEST = 10


def reliability_plot(suite: Suite, results: Results, models: Sequence[str], limit: int | None = None) -> Plot:
    """Return a panel for each condition, and each budget of a sweep, with a line for each of the models.

    A point is a bin of equal width that has ten examples or more, at its mean confidence.

    Raises:
        UsageError: the models of the suite state no confidence.
        IncompleteError: no condition has results with confidences.
    """
    if "confidence" not in fields_of(TASKS[suite.task].outcome):
        raise UsageError(f"suite {suite.name!r} is of {suite.task}, whose outcomes have no confidence")
    found: dict[str, list[Series]] = {}
    counts: set[int] = set()
    for model in models:
        coverages = cover(suite.conditions, results.of(model), dataset_sizes=results.sizes, limit=limit)
        for view in (view for condition in suite.conditions for view in views_of(condition)):
            coverage = coverages[view.condition.name]
            if coverage.missing != 0 or view.condition.dataset.is_out_of_distribution:
                continue
            if (outcomes := coverage.outcomes_at(view.epsilon)).known("confidence").all():
                found.setdefault(view.label, []).append(Series(model=model, points=_points(outcomes)))
                counts.add(len(outcomes))
    if not found:
        raise IncompleteError(
            f"there is nothing to draw: no condition of {clipped(suite.name)} has results with confidences, which early"
            " stopping and archives leave out; measure them in another folder of results"
        )
    drawn = tuple(dict.fromkeys(series.model for lines in found.values() for series in lines))
    n = " or ".join(f"{each:,}" for each in sorted(counts))
    return Plot(
        panels=tuple(
            LinePanel(
                title=label,
                x_label="confidence (%)",
                y_label="accuracy (%)",
                ticks=tuple((float(each), str(each)) for each in range(0, 101, 25)),
                series=tuple(lines),
                is_per_cent=True,
                has_diagonal=True,
            )
            for label, lines in found.items()
        ),
        models=drawn,
        labels=drawn,
        notes=(f"{NUM_BINS} bins, of {FEWEST} examples or more; n = {n} examples a line. Whiskers: {INTERVAL}.",),
        left_out=tuple(model for model in models if model not in drawn),
    )


def _points(outcomes: Outcomes) -> tuple[Point, ...]:
    confidences, right = outcomes.column("confidence"), outcomes.column("correct_top1")
    bins, points = bins_of(confidences), []
    for place in np.flatnonzero(np.bincount(bins) >= FEWEST):
        of_bin, x = right[bins == place], float(confidences[bins == place].mean())
        low, high = wilson_interval(int(of_bin.sum()), len(of_bin))
        points.append(Point(x=100 * x, value=100 * float(of_bin.mean()), low=100 * low, high=100 * high))
    return tuple(points)
