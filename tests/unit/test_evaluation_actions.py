"""Actions keep the keys that identities had; scores under a class mask, and of examples that belong to no class."""

import pickle
from fractions import Fraction
from importlib import import_module
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from robench.attacks.pgd import Pgd
from robench.core.columns import Outcomes, Values
from robench.core.identity import key_of
from robench.core.suite import PREDICT, Action, Condition, Predict
from robench.datasets.digits import DIGITS
from robench.evaluation.actions import Audit, Rescore
from robench.perturbations.clean import Clean
from robench.reports.selection import source_of_condition
from robench.tasks.base import Scoring
from robench.tasks.classification import CLASSIFICATION, ClassificationOutcome

PGD = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=10)
RESCORE = Rescore(source="0" * 32, mean=(0.5,), std=(0.25,))
ACTIONS: list[Action] = [PREDICT, Audit(), RESCORE]


def condition(perturbation: Clean | Pgd, action: Action, num_predictions: int = 1) -> Condition:
    return Condition(
        name="c", dataset=DIGITS, perturbation=perturbation, action=action, num_predictions=num_predictions
    )


@pytest.mark.parametrize(
    ("budget", "num_predictions", "key"),
    [
        (None, 1, "5abc94ad5ef5f9b11f3254b2caca52a7"),
        ("4/255", 1, "c6a7c005c79ca11fa7f1f6dfdb612ed6"),
        (None, 3, "bc8d7d208989ad8822f0c8d5f00cabd0"),
        ("4/255", 3, "cbbbd498451bd0478e0fd62c024a9c8a"),
    ],
)
def test_stored_examples_keep_the_keys_of_perturbations(budget: str | None, num_predictions: int, key: str) -> None:
    # Taken from the release before actions.
    action = Rescore(source="0" * 32, mean=(0.5,), std=(0.25,), budget=budget)
    assert condition(PGD, action, num_predictions).perturbation_key == key


def test_predictions_have_the_perturbation_s_key_and_audits_their_own() -> None:
    assert condition(PGD, PREDICT).identity == {"perturbation": condition(PGD, PREDICT).action.identity_with(PGD)}
    assert condition(PGD, PREDICT).perturbation_key == key_of(PGD)
    assert condition(Clean(), Audit()).identity == {"perturbation": {"kind": "audit", "version": 4}}
    assert condition(Clean(), Audit(epsilon=Fraction(1, 255))).identity == {
        "perturbation": {"kind": "audit", "version": 4, "epsilon": "1/255"}
    }


def test_no_two_actions_share_a_key() -> None:
    keys = {source_of_condition(condition(Clean(), action)) for action in ACTIONS}
    assert len(keys) == len(ACTIONS)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)
def test_an_action_measures_where_its_implementation_says(action: Action) -> None:
    module, _, name = action.implementation.partition(":")
    parameters = list(signature(getattr(import_module(module), name)).parameters)
    assert parameters[:5] == ["shard", "model", "dataset", "limit", "kept"]
    assert action.implemented() is getattr(import_module(module), name)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)
def test_an_action_goes_to_workers(action: Action) -> None:
    assert pickle.loads(pickle.dumps(condition(PGD, action))) == condition(PGD, action)


def test_only_predictions_run_an_attack_and_make_inputs() -> None:
    assert [action.runs_attack for action in ACTIONS] == [True, False, False]
    assert [condition(PGD, action).makes_inputs for action in ACTIONS] == [True, False, False]
    assert not condition(Clean(), PREDICT).makes_inputs


def test_bounds_of_the_audit_hold() -> None:
    with pytest.raises(ValueError, match="epsilon must be above 0, got 0"):
        Audit(epsilon=Fraction(0))


def test_the_default_action_is_to_predict() -> None:
    assert Condition(name="c", dataset=DIGITS, perturbation=Clean()).action == Predict()


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
