"""Plot of the strength of attacks: robust accuracy against the perturbation under each attack and the best of all."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robench.comparison.optimality import radius_of
from robench.comparison.strength import Group, Strengths
from robench.core.errors import IncompleteError
from robench.core.inert import clipped
from robench.figures.plots import LinePanel, Plot, Series
from robench.leaderboard.board import Point

BEST = "best of all"


def optimality_plot(found: Strengths) -> Plot:
    """Return a panel for each model and norm, whose curves end at the largest best distance.

    Raises:
        IncompleteError: no image is fooled.
    """
    groups = [each for each in found.groups if radius_of(each.distances)]
    if not groups:
        reasons = "; ".join((*found.missing, *found.notes)) or "no attack has results that fool an image"
        raise IncompleteError(f"there is nothing to draw of {clipped(found.suite)}: {reasons}")
    names = tuple(dict.fromkeys([*(each.name for group in groups for each in group.attacks), BEST]))
    counts = sorted({group.distances.shape[1] for group in groups})
    return Plot(
        panels=tuple(map(_panel, groups)),
        models=names,
        labels=names,
        looks=tuple(range(len(names))),
        notes=(f"n = {' or '.join(map(str, counts))} images.", *found.missing),
    )


def _panel(group: Group) -> LinePanel:
    radius, lines = radius_of(group.distances), [*group.distances, group.distances.min(0)]
    return LinePanel(
        title=f"{group.model}: {group.norm}",
        x_label=f"{group.norm.name} distance{f' ({group.norm.unit})' * bool(group.norm.unit)}",
        y_label="robust accuracy (%)",
        ticks=(),
        series=tuple(
            Series(model=name, points=tuple(_curve(line, radius)))
            for name, line in zip([*(each.name for each in group.attacks), BEST], lines, strict=True)
        ),
        is_per_cent=True,
    )


def _curve(distances: NDArray[np.float64], radius: float) -> Sequence[Point]:
    """Return the corners of the step function of r: the proportion of distances (N,) above r, in per cent."""
    places = np.unique(distances[distances <= radius]).tolist()
    above = [100.0 * float((distances > place).mean()) for place in places]
    points = [Point(x=0.0, value=100.0 * float((distances > 0).mean()))]
    for place, value in zip(places, above, strict=True):
        points += [Point(x=place, value=points[-1].value), Point(x=place, value=value)]
    return [*points, Point(x=radius, value=points[-1].value)]
