"""Outcomes of single examples: all that a metric may read, one type per task.

From the model's scores to the metric they are columns (``core.columns``), whose fields these types declare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one example did.

    Attributes:
        linf: largest absolute change of any input value, in pixel units; None where inputs have no such distance.
        l2: Euclidean norm of the change; None likewise.
        l1: sum of absolute changes; None likewise.
        found: whether a search for the nearest adversarial example found one; None of other perturbations.
        num_queries, num_gradients: passes of the victim that the perturbation took, forward and backward; None where
            nobody counts.
        num_clamped: values of the input that the attack returned outside [0, 1] by more than rounding, which were then
            clamped; None where there were none.
        epsilon: of a sweep, the budget that this is the outcome under, as an exact fraction such as ``4/255``.
    """

    example_id: str
    epsilon: str | None = None
    linf: float | None = None
    l2: float | None = None
    l1: float | None = None
    found: bool | None = None
    num_queries: int | None = None
    num_gradients: int | None = None
    num_clamped: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationOutcome(Outcome):
    """What a classifier made of one example.

    Attributes:
        target: the true class; ``prediction``: the class that the victim chose (ties go to the lower class).
        correct_top1: the true class came first; ``correct_top5``: among the first five.
        confidence: largest softmax probability, in [0, 1].
        loss_nats: cross-entropy of the true class, in nats.
        num_predictions: predictions that were made, each with draws of its own; the fields above are of the first.
            None where one was made. ``num_correct``: in how many of them the true class came first.

    Top-5, confidence and loss are None where an attack left the example alone once it was fooled, and so did not do its
    worst, unless the condition asks for the point that the attack's published code leaves.
    """

    target: int
    prediction: int
    correct_top1: bool
    correct_top5: bool | None
    confidence: float | None
    loss_nats: float | None
    num_predictions: int | None = None
    num_correct: int | None = None


OUTCOME_TYPES: Mapping[str, type[Outcome]] = {"classification": ClassificationOutcome}
