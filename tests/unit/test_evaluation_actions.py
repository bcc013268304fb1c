"""Actions: identities keep the keys that they had, and implementations are found where they are said to be."""

import pickle
from fractions import Fraction
from importlib import import_module
from inspect import signature

import pytest

from robench.attacks.pgd import Pgd
from robench.core.identity import key_of
from robench.core.suite import PREDICT, Action, Condition, Predict
from robench.datasets.digits import DIGITS
from robench.evaluation.actions import Audit, Rescore
from robench.perturbations.clean import Clean
from robench.reports.selection import source_of_condition

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
