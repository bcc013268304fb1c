"""Plots of robustness against cost: a point for each model of a leaderboard over what it costs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from robench.core.errors import IncompleteError
from robench.core.inert import clipped
from robench.costs.stored import StoredCost
from robench.figures.plots import (
    IN_PER_CENT,
    LinePanel,
    Place,
    PlacePanel,
    Plot,
    Series,
    axis_of,
    label_of,
    notes_of,
    nothing_of,
    whiskers_of,
)
from robench.leaderboard.board import BoardRow, Leaderboard, Point
from robench.reports.arrangement import one_column


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAxis:
    """Costs of models on one axis, with the quartiles of measured ones.

    ``noun`` is the cost in a message, ``note`` what it was measured with.
    """

    label: str
    noun: str
    values: Mapping[str, float]
    bounds: Mapping[str, tuple[float, float]]
    note: str = ""


def seconds_axis(costs: Sequence[StoredCost], models: Sequence[str]) -> CostAxis:
    """Return the milliseconds of inference of models, under the conditions that most of them were measured under.

    ``costs`` are the latest first, and later ones count before earlier ones.
    """
    found = _alike(costs, models)
    described = next((cost.described for cost in found.values()), "")
    return CostAxis(
        label="inference (ms a sample)",
        noun="seconds in the folder costs of --results, which 'robench cost MODEL...' measures",
        values={model: 1e3 * cost.seconds["inference"][0] for model, cost in found.items()},
        bounds={
            model: (1e3 * low, 1e3 * high)
            for model, cost in found.items()
            for _, low, high in [cost.seconds["inference"]]
        },
        note=f"Times: median and quartiles on {described}." if described else "",
    )


def _alike(costs: Sequence[StoredCost], models: Collection[str]) -> dict[str, StoredCost]:
    """Return the times of models, by model, under the conditions that most of them were measured under."""
    by_conditions: dict[str, dict[str, StoredCost]] = {}
    for cost in costs:
        if cost.model in models and "inference" in cost.seconds:
            by_conditions.setdefault(cost.conditions, {}).setdefault(cost.model, cost)
    return max(by_conditions.values(), key=len, default={})


def cost_plot(board: Leaderboard, name: str, axis: CostAxis) -> Plot:
    """Return a column of a leaderboard against a cost, a point a model.

    ``name`` is that of the column, as for ``reports.arranged``.

    Raises:
        UsageError: no column is so named, or several are.
        IncompleteError: no model has both numbers.
    """
    wanted = one_column([each.column for each in board.columns], name)
    column = next(each for each in board.columns if each.column is wanted)
    factor = 100 if column.unit in IN_PER_CENT else 1
    places: list[Place] = []
    drawn: list[BoardRow] = []
    for row in board.rows:
        estimate = row.cells[column.key].estimate
        if estimate is None or not isfinite(estimate.value) or row.model not in axis.values:
            continue
        has_interval = estimate.low is not None and estimate.high is not None
        places.append(
            Place(
                model=row.model,
                x=axis.values[row.model],
                y=factor * estimate.value,
                x_bounds=axis.bounds.get(row.model),
                y_bounds=(factor * (estimate.low or 0.0), factor * (estimate.high or 0.0)) if has_interval else None,
            )
        )
        drawn.append(row)
    if not places:
        if any(row.cells[column.key].estimate for row in board.rows):
            raise IncompleteError(f"there is nothing to draw: no model of {clipped(board.title)} has {axis.noun}")
        raise nothing_of(board, f"column {wanted.key}")
    counts = sorted({row.cells[column.key].num_examples for row in drawn})
    n = " or ".join(f"{count:,}" for count in counts)
    notes = (f"n = {n} examples a model.", *whiskers_of(drawn, [column.interval]), *([axis.note] if axis.note else []))
    return Plot(
        panels=(PlacePanel(title=column.label, x_label=axis.label, y_label=axis_of(column), places=tuple(places)),),
        models=tuple(row.model for row in drawn),
        labels=tuple(map(label_of, drawn)),
        notes=(*notes, *notes_of(board, drawn)),
        left_out=tuple(row.model for row in board.rows if row not in drawn),
    )


def sizes_plot(sizes: Mapping[str, Sequence[str]], names: Sequence[str], costs: Sequence[StoredCost]) -> Plot:
    """Return speed and memory of inference against the size of models, under the conditions of most measurements.

    ``sizes`` are the models of each line, from the smallest; ``names`` are those of the sizes.
    ``costs`` are as of ``seconds_axis``.

    Raises:
        IncompleteError: none of the models was measured.
    """
    wanted = {model for models in sizes.values() for model in models}
    found = _alike(costs, wanted)
    if not found:
        raise IncompleteError(f"no result of 'robench cost' of {', '.join(sorted(wanted))}")

    def panel(title: str, label: str, read: Callable[[StoredCost], Point]) -> LinePanel:
        series = tuple(
            Series(
                model=name,
                points=tuple(
                    replace(read(found[model]), x=float(place)) if model in found else Point(x=float(place), value=None)
                    for place, model in enumerate(models)
                ),
            )
            for name, models in sizes.items()
        )
        ticks = tuple((float(place), name) for place, name in enumerate(names))
        return LinePanel(
            title=title, x_label="size of model", y_label=label, ticks=ticks, series=series, is_per_cent=False
        )

    def speed(cost: StoredCost) -> Point:
        median, low, high = cost.seconds["inference"]
        return Point(x=0.0, value=1 / median, low=1 / high, high=1 / low)

    def memory(cost: StoredCost) -> Point:
        return Point(x=0.0, value=cost.peak_bytes["inference"] / 1e6)

    described = next(iter(found.values())).described
    return Plot(
        panels=(panel("inference", "samples a second", speed), panel("peak memory of inference", "MB", memory)),
        models=tuple(sizes),
        labels=tuple(sizes),
        looks=tuple(range(len(sizes))),
        notes=(f"{len(found)} models on {described}: medians, whiskers at the quartiles.",),
    )
