"""Plots before they are drawn: panels of lines over an axis, or of points of training seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from robench.core.errors import UsageError
from robench.core.inert import clipped
from robench.leaderboard.board import Point

MOST_PANELS = 60
MOST_MODELS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Line of one model.

    Attributes:
        points: ascending; points without a value are gaps. Values are in the unit of the panel's axis.
        is_seed: whether it is one of several training seeds, whose mean is another line of the same model.
    """

    model: str
    points: tuple[Point, ...]
    is_seed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePanel:
    """Panel of lines.

    Attributes:
        x_label, y_label: with their units.
        ticks: places on the axis with their labels, ascending; empty where the axis counts.
        is_per_cent: whether values lie between 0 and 100.
    """

    title: str
    x_label: str
    y_label: str
    ticks: tuple[tuple[float, str], ...]
    series: tuple[Series, ...]
    is_per_cent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRow:
    """Numbers of one model in a panel of points, in the unit of its axis.

    Attributes:
        seeds: number of each training seed; one of a single checkpoint.
        mean: over the seeds, with ``low`` and ``high``, the bounds of its interval; None of a single checkpoint.
        gap: text in place of numbers that are missing or infinite; empty where all are there.
    """

    model: str
    seeds: tuple[float, ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPanel:
    """Panel with a row of points for each model, from the top."""

    title: str
    x_label: str
    rows: tuple[SeedRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Plot of one or several panels of one kind, over the same models.

    Attributes:
        models: in the order of legend and styles; ``labels``: their names in the legend where these say more.
        notes: sentences below the panels.
        left_out: models that are not drawn, since there are too many for one legend.
    """

    panels: tuple[LinePanel | SeedPanel, ...]
    models: tuple[str, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


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
