"""Declaration of classification: one of several classes for each example, and its consistent outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.outcomes import Outcome
from robench.tasks.base import Broken, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.columns import Outcomes
    from robench.tasks.base import Scoring


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationOutcome(Outcome):
    """Outcome of a classifier on one example.

    Attributes:
        target: the true class; ``prediction``: the predicted class (ties go to the lower class).
        correct_top1: whether the true class ranks first; ``correct_top5``: whether it ranks among the first five.
        confidence: largest softmax probability, in [0, 1].
        loss_nats: cross-entropy of the true class, in nats.
        brier: sum over classes of (p_k - [k is the true class])^2, in [0, 2]; None in results of older releases too.
        num_predictions: number of predictions, each with its own draws; the fields above describe the first. None if
            there is only one. ``num_correct``: number of predictions in which the true class ranks first.
        votes: number of draws that give a smoothed model's class, among the draws that bound its probability; None for
            other models. ``abstained``: whether that bound is at most 1/2, so that the model has no answer and is not
            right.
        certified_radius: l2 distance within which a smoothed model has the same class; None where it abstained.

    Top-5 and all three scores are None after an attack with early stopping, which does not reach its worst case, unless
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
    brier: float | None = None
    votes: int | None = None
    abstained: bool | None = None
    certified_radius: float | None = None


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
    consistency="robench.tasks.classification:inconsistencies",
    facts={"target": "target"},
    hub_types={"images": "image-classification", "texts": "text-classification"},
)

# Softmax and cross-entropy are computed in float64.
_ROUNDING = 1e-6


def inconsistencies(outcomes: Outcomes, scoring: Scoring | None) -> Iterator[Broken]:
    """Yield contradictions in the outcomes of a classifier; see ``tasks.base.Consistency``."""
    yield from _verdicts(outcomes, scoring)
    yield from _certificates(outcomes)
    yield from _scores(outcomes)
    if scoring is not None and not scoring.keeps_scores:
        for name in ("correct_top5", "confidence", "loss_nats", "brier"):
            yield Broken(name, outcomes.known(name), "is known, although the attack stops at success")


def _verdicts(outcomes: Outcomes, scoring: Scoring | None) -> Iterator[Broken]:
    import numpy as np

    target, prediction = outcomes.column("target"), outcomes.column("prediction")
    is_right = outcomes.column("correct_top1")
    # Of examples that belong to no class none is right, and no loss is known.
    has_class = bool(is_right.any() or outcomes.known("loss_nats").any())
    if scoring is not None:
        has_class = not scoring.dataset.is_out_of_distribution
        classes, count = scoring.dataset.classes, scoring.dataset.num_classes
        for name, values in (("target", target), ("prediction", prediction)):
            if count is not None:
                yield Broken(name, values >= count, f"must be below the number of classes, {count}")
            if classes is not None and (has_class or name == "prediction"):
                yield Broken(name, ~np.isin(values, classes), "must be one of the classes of its dataset")
        if not has_class:
            yield Broken("correct_top1", is_right, "is true, and the example belongs to no class")
            yield Broken("loss_nats", outcomes.known("loss_nats"), "is known, and the example belongs to no class")
    for name, values in (("target", target), ("prediction", prediction)):
        yield Broken(name, values < 0, "is below 0")
    yield Broken("correct_top1", is_right & (prediction != target), "is true, and its prediction is not its target")
    if has_class:
        same = (prediction == target) & ~outcomes.filled("abstained", False)
        yield Broken("correct_top1", ~is_right & same, "is false, and its prediction is its target")
    if outcomes.values("correct_top5") is not None:
        outside = ~outcomes.filled("correct_top5", True)
        yield Broken("correct_top5", outside & is_right, "is false, and its correct_top1 is true")
    if outcomes.values("num_predictions") is None and outcomes.values("num_correct") is None:
        return
    several, right = outcomes.filled("num_predictions", 2), outcomes.filled("num_correct", 0)
    yield Broken("num_predictions", several < 2, "is below 2")
    rows = outcomes.known("num_correct")
    yield Broken("num_correct", rows & (right < is_right), "is below the known number of right predictions")
    rows &= outcomes.known("num_predictions")
    yield Broken(
        "num_correct", rows & (right > several - ~is_right), "is above the possible number of right predictions"
    )


def _certificates(outcomes: Outcomes) -> Iterator[Broken]:
    """Yield contradictions of votes and certificates, which smoothed models alone have."""
    if all(outcomes.values(name) is None for name in ("votes", "abstained", "certified_radius")):
        return
    is_smoothed, abstained = outcomes.known("votes"), outcomes.filled("abstained", False)
    is_certified, radius = outcomes.known("certified_radius"), outcomes.filled("certified_radius", 1.0)
    yield Broken("votes", outcomes.filled("votes", 0) < 0, "is below 0")
    yield Broken("abstained", outcomes.known("abstained") != is_smoothed, "must be known where its votes are")
    yield Broken("correct_top1", outcomes.column("correct_top1") & abstained, "is true, and the model abstained")
    wrong = is_certified != (is_smoothed & ~abstained)
    yield Broken("certified_radius", wrong, "must be known where the model did not abstain, and nowhere else")
    yield Broken("certified_radius", ~(radius > 0), "must be above 0")


def _scores(outcomes: Outcomes) -> Iterator[Broken]:
    """Yield contradictions of confidence and loss, which are probabilities of the same softmax."""
    import numpy as np

    is_right, outside = outcomes.column("correct_top1"), ~outcomes.filled("correct_top5", True)
    confidence, loss = outcomes.filled("confidence", 1.0), outcomes.filled("loss_nats", 0.0)
    yield Broken("confidence", ~((confidence > 0) & (confidence <= 1)), "is not in (0, 1]")
    if outcomes.values("loss_nats") is None:
        return
    yield Broken("loss_nats", ~(np.isfinite(loss) & (loss >= 0)), "must be finite and at least 0")
    known = outcomes.known("loss_nats")
    # Probability of the target: of five classes before it each has at least as much.
    proportion = np.exp(-np.abs(loss))
    rows = known & outside & (6 * proportion > 1 + _ROUNDING)
    yield Broken("loss_nats", rows, "is too small for its correct_top5, which is false")
    # The other classes have 1 - p together, and their squares at most its square.
    least, brier = (1 - proportion) ** 2, outcomes.filled("brier", 0.0)
    rows = known & outcomes.known("brier") & ~((brier >= least - _ROUNDING) & (brier <= 2 * least + _ROUNDING))
    yield Broken("brier", rows, "contradicts its loss_nats")
    rows = known & ~is_right & (2 * proportion > 1 + _ROUNDING)
    yield Broken("loss_nats", rows, "is too small for its correct_top1, which is false")
    known &= outcomes.known("confidence")
    most = np.where(is_right, confidence, np.minimum(confidence, 1 - confidence))
    least = np.where(is_right, confidence, 0.0)
    rows = known & ((proportion > most + _ROUNDING) | (proportion < least - _ROUNDING))
    yield Broken("confidence", rows, "contradicts its loss_nats")
