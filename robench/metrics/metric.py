"""What a metric is: a number that is read off outcomes, and over what it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from robench.core.outcomes import Outcome
from robench.core.report import Estimate

Scope = Literal["condition", "threat-model"]
SearchScope = Literal["search", "distance"]
Compute = Callable[[Sequence[Sequence[Outcome]]], Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What all metrics say of themselves.

    Attributes:
        name: the name in YAML; ``title``: the name for readers.
        unit: the unit of its estimates, see ``core.report.Estimate``.
        task: the task whose outcomes it reads, a key of ``core.outcomes.OUTCOME_TYPES``.
        reads_scores: whether it reads more than the prediction, which is all that attacks that stop at success leave.
    """

    name: str
    title: str
    unit: str
    task: str
    reads_scores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Described):
    """A number of a table's column.

    Attributes:
        scope: ``condition`` gives one column a condition, or a budget of a sweep; ``threat-model`` one a threat model,
            over the clean condition and then every attack within it.
        compute: the outcomes of the column's conditions, in the column's order, to an estimate.
            IncompleteError: there are no outcomes, or those of two conditions do not belong together.
            ContractError: they are not outcomes of the metric's task.
    """

    scope: Scope
    compute: Compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a column asks of a search for the nearest adversarial example.

    Attributes:
        norm: of the search, in which distances are meant; in pixel units.
        within: the distance that the column states; None where it states none.
    """

    norm: str
    within: float | None = None


ComputeSearch = Callable[[Sequence[Outcome], Search], Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMetric(Described):
    """A number that is read off one search for the nearest adversarial example.

    Attributes:
        scope: ``search`` gives one column a search; ``distance`` one for each distance that its condition states.
        compute: the outcomes of the search, and what is asked of it, to an estimate.
            IncompleteError: there are no outcomes, or none that it could be over.
            ContractError: they are not outcomes of the metric's task, or of no search.
    """

    scope: SearchScope
    compute: ComputeSearch
