"""Estimates of a column's metric from the outcomes of its conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.metrics import METRICS, Readings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.columns import Outcomes
    from robench.core.report import Estimate
    from robench.core.suite import Column
    from robench.declarations.views import View
    from robench.reports.coverage import Coverage


def estimate_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> Estimate:
    """Return the number of a column.

    Args:
        column: its metric must be known.
        views: views of the suite by name, as used in the column's conditions.
        coverages: coverage of each condition, by its name.

    Raises:
        IncompleteError: examples are missing, or those of two conditions do not belong together.
        ContractError: the outcomes do not fit the metric.
    """
    measured: list[Outcomes] = []
    others: dict[str, Outcomes] = {}
    corrupted: dict[str, dict[int, Outcomes]] = {}
    for name, role in column.reads:
        view = views[name]
        outcomes = coverages[view.condition.name].outcomes_at(view.epsilon)
        if role.name == "measured":
            measured.append(outcomes)
        elif role.name == "corrupted":
            corrupted.setdefault(role.corruption, {})[role.severity] = outcomes
        else:
            others[role.name] = outcomes
    readings = Readings(
        measured=tuple(measured),
        clean=others.get("clean"),
        negatives=others.get("negatives"),
        corrupted=corrupted,
        family=column.family,
        norm=column.norm,
        within=None if column.distance is None else float(column.distance.value),
    )
    return METRICS[column.metric].compute(readings)
