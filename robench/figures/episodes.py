"""Plot of an episode: observations of its environment step by step, clean and under conditions, and its return."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from robench.figures.plots import LinePanel, Plot, Series
from robench.leaderboard.board import Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from robench.runs.watched import Watched


def episode_plot(episodes: Sequence[Watched], note: str = "") -> Plot:
    """Return a panel for each value of the observations, and one of the return so far; a line is a condition.

    What a policy was given is a line of its own where it is not the observation.
    """
    given = [each for each in episodes if not np.array_equal(each.seen, each.states)]
    lines = {each.condition: each.states for each in episodes}
    lines |= {f"{each.condition}, as seen": each.seen for each in given}
    panels = [
        _panel(f"observation {number}", "value", {name: values[:, number] for name, values in lines.items()})
        for number in range(episodes[0].states.shape[1])
    ]
    panels.append(_panel("return so far", "return", {each.condition: each.returns for each in episodes}))
    labels = tuple(lines)
    return Plot(
        panels=tuple(panels),
        models=labels,
        labels=labels,
        looks=tuple(range(len(labels))),
        notes=(note,) if note else (),
    )


def _panel(title: str, label: str, lines: dict[str, NDArray[np.float64]]) -> LinePanel:
    series = (
        Series(model=name, points=tuple(Point(x=float(step), value=float(value)) for step, value in enumerate(values)))
        for name, values in lines.items()
    )
    num_steps = max(map(len, lines.values()))
    ticks = tuple((float(step), str(step)) for step in range(0, num_steps + 1, max(1, num_steps // 4)))
    return LinePanel(title=title, x_label="step", y_label=label, ticks=ticks, series=tuple(series), is_per_cent=False)
