"""Declaration of classification: one of several classes for each example."""

from dataclasses import dataclass

from robench.core.outcomes import Outcome
from robench.tasks.base import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationOutcome(Outcome):
    """Outcome of a classifier on one example.

    Attributes:
        target: the true class; ``prediction``: the predicted class (ties go to the lower class).
        correct_top1: whether the true class ranks first; ``correct_top5``: whether it ranks among the first five.
        confidence: largest softmax probability, in [0, 1].
        loss_nats: cross-entropy of the true class, in nats.
        num_predictions: number of predictions, each with its own draws; the fields above describe the first. None if
            there is only one. ``num_correct``: number of predictions in which the true class ranks first.

    Top-5, confidence and loss are None after an attack with early stopping, which does not reach its worst case, unless
    the condition requests the point that the attack's published code returns.
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
    contradiction="robench.tasks.classification_impl:contradiction",
    gap="robench.tasks.classification_impl:gap",
    is_audited=True,
)
