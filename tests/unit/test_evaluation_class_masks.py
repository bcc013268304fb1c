"""Scores under a class mask, and of examples that belong to no class."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from robench.core.columns import Outcomes, Values
from robench.tasks.base import Scoring
from robench.tasks.classification import CLASSIFICATION, ClassificationOutcome

NUM_CLASSES = 8
TARGETS = torch.tensor([2, 6])
# The first is sure of class 0, then 2; the second of 5, then 6.
LOGITS = torch.tensor([[9.0, 0, 8, 0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0, 9, 8, 0]])


def judged(
    *outputs: torch.Tensor,
    classes: tuple[int, ...] | None = None,
    has_right_class: bool = True,
    scores_say_all: bool = True,
) -> Any:
    """Rows of outcomes, of ``LOGITS`` where no outputs are given."""
    # Any: of a declaration these two answers alone are asked.
    dataset: Any = SimpleNamespace(classes=classes, is_out_of_distribution=not has_right_class)
    scoring = Scoring(dataset=dataset, keeps_scores=scores_say_all)
    columns = CLASSIFICATION.rules.columns(outputs or (LOGITS,), TARGETS, scoring)
    ids = Values(np.array(["a", "b"], np.dtypes.StringDType()))
    return Outcomes(ClassificationOutcome, {"example_id": ids, **columns}, 2)


def test_masked_classes_are_never_predicted() -> None:
    assert [outcome.prediction for outcome in judged()] == [0, 5]
    assert [outcome.prediction for outcome in judged(classes=(1, 2, 6))] == [2, 6]
    assert all(outcome.correct_top1 for outcome in judged(classes=(1, 2, 6)))


def test_confidence_and_loss_are_of_the_softmax_over_the_other_classes() -> None:
    classes = (1, 2, 6)
    shares = LOGITS.double()[:, list(classes)].softmax(1)
    for outcome, share in zip(judged(classes=classes), shares, strict=True):
        assert outcome.confidence == pytest.approx(float(share.max()), abs=1e-12)
        assert outcome.loss_nats == pytest.approx(-float(share.max().log()), abs=1e-12)


def test_top5_is_among_the_other_classes() -> None:
    logits = torch.arange(8.0).repeat(2, 1)
    # Class 2 has five higher scores, of which the mask leaves two.
    assert not judged(logits)[0].correct_top5
    assert judged(logits, classes=(1, 2, 6, 7))[0].correct_top5


def test_all_classes_are_the_same_as_no_mask() -> None:
    assert judged(classes=tuple(range(NUM_CLASSES))) == judged()


def test_further_predictions_are_masked_too() -> None:
    masked = judged(LOGITS, LOGITS, LOGITS.flip(0), classes=(1, 2, 6))
    assert [(outcome.num_predictions, outcome.num_correct) for outcome in masked] == [(3, 2), (3, 2)]


def test_where_no_class_is_right_nothing_is_and_only_confidence_is_told() -> None:
    for outcome, plain in zip(judged(has_right_class=False), judged(classes=None), strict=True):
        assert (outcome.correct_top1, outcome.correct_top5, outcome.loss_nats) == (False, False, None)
        assert (outcome.confidence, outcome.prediction) == (plain.confidence, plain.prediction)


def test_even_a_prediction_of_the_label_is_not_right_there() -> None:
    (outcome, _) = judged(torch.eye(8)[[2, 6]] * 9, LOGITS, has_right_class=False)
    assert (outcome.prediction, outcome.target, outcome.correct_top1, outcome.num_correct) == (2, 2, False, 0)
