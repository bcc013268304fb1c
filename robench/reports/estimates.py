"""What a column's metric makes of the outcomes of its views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import ContractError
from robench.declarations.corrupted import corrupted_of
from robench.metrics import METRICS, CorruptedOutcomes, CorruptionMetric, Metric, Search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.core.outcomes import Outcome
    from robench.core.report import Estimate
    from robench.core.suite import Column
    from robench.declarations.views import View
    from robench.reports.coverage import Coverage


def estimate_of(column: Column, views: Sequence[View], coverages: Mapping[str, Coverage]) -> Estimate:
    """Return the number of a column, whose conditions are ``views``, in their order.

    Raises:
        IncompleteError: examples are missing, or those of two conditions do not belong together.
        ContractError: the outcomes are not of the metric's kind.
    """
    metric = METRICS[column.metric]
    outcomes = [coverages[view.condition.name].outcomes_at(view.epsilon) for view in views]
    if isinstance(metric, Metric):
        return metric.compute(outcomes)
    if isinstance(metric, CorruptionMetric):
        return metric.compute(_corrupted(views, outcomes))
    within = None if column.distance is None else float(column.distance.value)
    (view,), (found,) = views, outcomes
    norm = view.attack.search_norm
    if norm is None:
        raise ContractError(f"{column.metric} reads searches for the nearest (cw, fab), and {view.name} is none")
    return metric.compute(found, Search(norm=norm, within=within))


def _corrupted(views: Sequence[View], outcomes: Sequence[Sequence[Outcome]]) -> CorruptedOutcomes:
    """Return what a column over corruptions reads: the one view that is no corruption is the clean one."""
    clean: Sequence[Outcome] = ()
    corrupted: dict[str, dict[int, Sequence[Outcome]]] = {}
    family = ""
    for view, each in zip(views, outcomes, strict=True):
        if (found := corrupted_of(view.condition)) is None:
            clean = each
        else:
            family = found.family
            corrupted.setdefault(found.type, {})[found.severity] = each
    return CorruptedOutcomes(family=family, clean=clean, corrupted=corrupted)
