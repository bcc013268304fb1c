"""What a metric is: a number that is read off outcomes, and over what it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from robench.core.outcomes import Outcome
from robench.core.report import Estimate

Scope = Literal["condition", "threat-model"]
Compute = Callable[[Sequence[Sequence[Outcome]]], Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number of a table's column.

    Attributes:
        name: the name in YAML; ``title``: the name for readers.
        unit: the unit of its estimates, see ``core.report.Estimate``.
        task: the task whose outcomes it reads, a key of ``core.outcomes.OUTCOME_TYPES``.
        scope: ``condition`` gives one column a condition; ``threat-model`` one a threat model, over the clean condition
            and then every attack within it.
        reads_scores: whether it reads more than the prediction, which is all that attacks that stop at success leave.
        compute: the outcomes of the column's conditions, in the column's order, to an estimate.
            IncompleteError: there are no outcomes, or those of two conditions do not belong together.
            ContractError: they are not outcomes of the metric's task.
    """

    name: str
    title: str
    unit: str
    task: str
    scope: Scope
    compute: Compute
    reads_scores: bool = False
