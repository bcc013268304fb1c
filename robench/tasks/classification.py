"""Declaration of classification: one class of several for each example."""

from __future__ import annotations

from dataclasses import dataclass

from robench.core.outcomes import Outcome
from robench.tasks.base import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationOutcome(Outcome):
    """What a classifier made of one example.

    Attributes:
        target: the true class; ``prediction``: the class that the model chose (ties go to the lower class).
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


CLASSIFICATION = Task(
    name="classification",
    title="One class of several for each example",
    outcome=ClassificationOutcome,
    implementation="robench.tasks.classification_impl:RULES",
    verdict="correct_top1",
    metric="top1_accuracy",
    losses=("ce", "margin", "dlr"),
    is_audited=True,
)
