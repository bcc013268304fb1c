"""What a metric is: a number that is read off outcomes, and over what it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from robench.core.outcomes import Outcome
from robench.core.report import Estimate
from robench.metrics.intervals import INTERVAL as WILSON

Scope = Literal["condition", "threat-model", "detection"]
CorruptionScope = Literal["type", "family"]
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
        interval: how its bounds are made, as tables name it.
    """

    name: str
    title: str
    unit: str
    task: str
    reads_scores: bool = False
    interval: str = WILSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Described):
    """A number of a table's column.

    Attributes:
        scope: ``condition`` gives one column a condition, or a budget of a sweep; ``threat-model`` one a threat model,
            over the clean condition and then every attack within it; ``detection`` one a condition whose examples are
            out of distribution, over it and then its negatives.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptedOutcomes:
    """What a column over corruptions reads.

    Attributes:
        clean: outcomes of the images without corruption; empty where the suite has no such condition.
        corrupted: by type and severity, outcomes of the same images.
        family: whose images, such as ``imagenet-c``, which decides the reference of corruption errors.
    """

    family: str
    clean: Sequence[Outcome]
    corrupted: Mapping[str, Mapping[int, Sequence[Outcome]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptionMetric(Described):
    """A number that is read off the five severities of one type of corruption, or of all types of a family.

    Attributes:
        scope: ``type`` gives one column a type; ``family`` one a family.
        needs_clean: whether it reads the images without corruption.
        needs_reference: whether it is in units of a reference's errors, which not every family has.
        compute: what was measured to an estimate.
            IncompleteError: there are no outcomes, or those of two conditions do not belong together.
            ContractError: they are not outcomes of the metric's task.
    """

    scope: CorruptionScope
    compute: Callable[[CorruptedOutcomes], Estimate]
    needs_clean: bool = False
    needs_reference: bool = True


AnyMetric = Metric | SearchMetric | CorruptionMetric
