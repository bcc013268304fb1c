"""Reliability diagram: accuracy against confidence in 15 bins, beside the diagonal of perfect calibration."""

from collections.abc import Sequence

import numpy as np

from robench.core.columns import Outcomes, fields_of
from robench.core.errors import IncompleteError, UsageError
from robench.core.inert import clipped
from robench.core.suite import Suite
from robench.figures.plots import LinePanel, Plot, Series
from robench.leaderboard.board import Point
from robench.metrics.calibration import NUM_BINS, bins_of
from robench.metrics.intervals import INTERVAL, wilson_interval
from robench.reports.build import views_by_name
from robench.reports.results import Results
from robench.reports.selection import cover
from robench.tasks import TASKS

FEWEST = 10
_TICKS = tuple((float(each), str(each)) for each in range(0, 101, 25))


def reliability_plot(
    suite: Suite, results: Results, models: Sequence[str], limit: int | None = None, *, equal_mass: bool = False
) -> Plot:
    """Return a panel for each condition, and each budget of a sweep, with a line for each of the models.

    A point is a bin at its mean confidence: of equal width, if it has ten examples or more; or, with ``equal_mass``, of
    equally many examples.

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
        for view in views_by_name(suite).values():
            coverage = coverages[view.condition.name]
            if coverage.missing != 0 or view.condition.dataset.is_out_of_distribution:
                continue
            outcomes = coverage.outcomes_at(view.epsilon)
            if len(outcomes) and outcomes.known("confidence").all():
                points = _points(outcomes, equal_mass=equal_mass)
                found.setdefault(view.label, []).append(Series(model=model, points=points))
                counts.add(len(outcomes))
    if not found:
        raise IncompleteError(
            f"there is nothing to draw: no condition of {clipped(suite.name)} has results with confidences; early"
            " stopping and archives leave them out, 'robench run' measures them in another folder of results"
        )
    drawn = tuple(dict.fromkeys(series.model for lines in found.values() for series in lines))
    panels = tuple(
        LinePanel(
            title=label,
            x_label="confidence (%)",
            y_label="accuracy (%)",
            ticks=_TICKS,
            series=tuple(lines),
            is_per_cent=True,
            has_diagonal=True,
        )
        for label, lines in found.items()
    )
    kind = "as many examples each" if equal_mass else f"equal width, without those of fewer than {FEWEST} examples"
    n = " or ".join(f"{each:,}" for each in sorted(counts))
    notes = (
        f"{NUM_BINS} bins of {kind}; n = {n} examples a line.",
        f"Whiskers: {INTERVAL}.",
    )
    left_out = tuple(model for model in models if model not in drawn)
    return Plot(panels=panels, models=drawn, labels=drawn, notes=notes, left_out=left_out)


def _points(outcomes: Outcomes, *, equal_mass: bool) -> tuple[Point, ...]:
    """Return the accuracy of each bin of enough examples, at its mean confidence, in per cent."""
    confidences, right = outcomes.column("confidence"), outcomes.column("correct_top1")
    bins = bins_of(confidences, equal_mass=equal_mass)
    points = []
    for place in np.flatnonzero(np.bincount(bins) >= (1 if equal_mass else FEWEST)):
        of_bin = right[bins == place]
        low, high = wilson_interval(int(of_bin.sum()), len(of_bin))
        x, value = float(confidences[bins == place].mean()), float(of_bin.mean())
        points.append(Point(x=100 * x, value=100 * value, low=100 * low, high=100 * high))
    return tuple(points)
