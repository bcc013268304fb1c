"""Paired tests of a column's numbers against its best, on the same examples.

Each model's verdicts on the same examples are paired with those of the best, by the exact test of McNemar
(``metrics.paired``). Holm 1979, "A simple sequentially rejective multiple test procedure": the p-values of a column's
models, ascending, times the number of those that remain, never falling; the chance of one wrong distinction in a column
is then at most 5 %. The best is chosen on the same examples, which makes the test against it slightly too ready to
distinguish.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from robench.leaderboard.board import Standing
from robench.metrics import METRICS
from robench.metrics.joining import aligned, ids_of
from robench.metrics.paired import exact_p_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from robench.core.suite import Column
    from robench.declarations.views import View
    from robench.reports.coverage import Coverage

LEVEL = 0.05
TEST = "exact McNemar test, two-sided, on the same examples; Holm over the models of the column"
# Above so many rows, models are compared with the best of each column alone.
MOST_PAIRED_ROWS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """Truth values of a model's examples (N,), whose proportion a column is, in ascending order of the ids (N,)."""

    ids: NDArray[Any]
    values: NDArray[np.bool_]


def verdicts_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> Verdicts | None:
    """Return the verdicts that a column is the proportion of; None of columns that are no such proportion.

    Raises:
        IncompleteError: examples are missing, or those of two conditions do not belong together.
    """
    name = METRICS[column.metric].proportion_of
    if name is None:
        return None
    read = [
        (condition, coverages[views[condition].condition.name].outcomes_at(views[condition].epsilon))
        for condition in column.conditions
    ]
    ids = ids_of(read[0][1], read[0][0])
    holds = np.logical_and.reduce([aligned(ids, outcomes, where).column(name) for where, outcomes in read])
    order = np.argsort(ids, kind="stable")
    return Verdicts(ids[order], holds[order])


def p_value(first: Verdicts, second: Verdicts) -> float | None:
    """Return the two-sided p-value that two models differ by chance alone; None where their examples differ."""
    return exact_p_value(first.values, second.values) if np.array_equal(first.ids, second.ids) else None


def standings(
    values: Mapping[str, float], verdicts: Mapping[str, Verdicts], *, lower_is_better: bool
) -> dict[str, Standing]:
    """Return the standing of each model that has a number.

    Args:
        values: numbers of one column by model; of equal ones the first is the best.
        verdicts: those of the models whose number can be tested.
        lower_is_better: whether the least number is the best.
    """
    if not values:
        return {}
    best = (min if lower_is_better else max)(values, key=lambda model: values[model])
    tested = {
        model: p
        for model in values
        if model != best and model in verdicts and best in verdicts
        if (p := p_value(verdicts[best], verdicts[model])) is not None
    }
    adjusted = holm(tested)
    return {
        model: Standing(
            is_best=model == best,
            p=tested.get(model),
            adjusted=adjusted.get(model),
            is_close=bool(tested) if model == best else adjusted.get(model, 0.0) > LEVEL,
        )
        for model in values
    }


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's adjusted p-values.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    adjusted: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[name]))
        adjusted[name] = largest
    return adjusted


def pairs_of(models: Sequence[str], verdicts: Mapping[str, Verdicts]) -> dict[tuple[int, int], float]:
    """Return the p-values of all pairs of models that can be tested, by their places.

    There are none above ``MOST_PAIRED_ROWS`` models.
    """
    if len(models) > MOST_PAIRED_ROWS:
        return {}
    pairs = combinations([(place, verdicts[model]) for place, model in enumerate(models) if model in verdicts], 2)
    return {(a, b): p for (a, first), (b, second) in pairs if (p := p_value(first, second)) is not None}
