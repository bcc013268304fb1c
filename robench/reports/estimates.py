"""Numbers of a column, and what is missing of them, from the outcomes of its conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.core.report import Cell
from robench.metrics import METRICS, Readings, unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.columns import Outcomes
    from robench.core.report import Estimate
    from robench.core.suite import Column, View
    from robench.reports.selection import Coverage


def estimate_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> Estimate:
    """Return the number of a column, whose metric must be known, from the views of the suite and their coverage.

    Raises:
        IncompleteError: examples are missing, or those of two conditions do not belong together.
        ContractError: the outcomes do not fit the metric.
    """
    estimate = METRICS[column.metric].compute(readings_of(column, views, coverages))
    return replace(estimate, unit=unit_of(column))


def readings_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> Readings:
    """Return the outcomes that a column reads, by role; raises IncompleteError if examples are missing."""
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
    return Readings(
        measured=tuple(measured),
        clean=others.get("clean"),
        negatives=others.get("negatives"),
        corrupted=corrupted,
        family=column.family,
        norm=column.norm,
        within=None if column.distance is None else float(column.distance.value),
    )


def cell_of(column: Column, views: Mapping[str, View], coverages: Mapping[str, Coverage]) -> tuple[Cell, str]:
    """Return the cell and, where every example is in and there is yet no number, the reason."""
    covered = [coverages[views[name].condition.name] for name in column.conditions]
    num_in = min(coverage.num_in for coverage in covered)
    missing = [coverage.missing for coverage in covered]
    known = [number for number in missing if number is not None]
    most = max(known) if len(known) == len(missing) else None
    if most != 0:
        return Cell(estimate=None, num_examples=num_in, missing=most), ""
    try:
        estimate = estimate_of(column, views, coverages)
    except IncompleteError as error:
        return Cell(estimate=None, num_examples=num_in, missing=most), str(error)
    return Cell(estimate=estimate, num_examples=num_in, missing=most), ""
