"""The point that an attack's published code leaves, and the cut of normalised inputs: against that code itself."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from attack_examples import MEAN, STD, SmoothVictim, anywhere, around_the_middle
from presence import present
from torch import Tensor

from robench import load_checkpoint, load_dataset
from robench.attacks.apgd import Apgd
from robench.attacks.attack import problem_of
from robench.attacks.autoattack import AutoAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.problem import Problem
from robench.attacks.search import State, search
from robench.attacks.square import Square
from robench.core.errors import BudgetExceededError, ContractError
from robench.core.protocols import Batch
from robench.domains.images import IMAGES
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.sweep import Sweep
from robench.tasks.classification_impl import margin_loss

UNIT: dict[str, Any] = {"space": "normalised", "clip": "unit"}
EPSILON = Fraction(8, 255)
SQUARE = Square(epsilon=EPSILON, num_queries=100, p_init=0.8, stop="at_success", returns="published")
APGD = Apgd(epsilon=EPSILON, num_steps=10, returns="published")
PGD = Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=10)


def made(declared: Any, batch: Batch, victim: Any) -> Tensor:
    return perturb(declared, batch, victim, ExampleDraws(range(len(batch.ids)))).inputs


def of_few_steps(epsilon: Fraction, returns: Any, **fields: Any) -> AutoAttack:
    shared: dict[str, Any] = {"epsilon": epsilon, **fields}
    stop: Any = "never" if returns == "published" else "at_success"
    apgd = Apgd(num_steps=10, stop=stop, returns=returns, **shared)
    fab = Fab(num_steps=10, num_targets=3, num_final_steps=0, stop="at_success", **shared)
    square = Square(num_queries=50, p_init=0.8, stop="at_success", returns=returns, **shared)
    targeted = replace(apgd, loss="dlr-targeted", num_restarts=3)
    return AutoAttack(variant="custom", members=(apgd, targeted, fab, square), returns=returns, **shared)


def library(function: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor, epsilon: Fraction) -> Tensor:
    """Return what pyautoattack leaves, by the same four attacks with as many steps."""
    from pyautoattack import AutoAttack as Reference
    from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted

    fields: dict[str, Any] = {"norm": "Linf", "eps": float(epsilon)}
    attacks = ["apgd-ce", "apgd-t", "fab-t", "square"]
    reference = Reference(function, version="custom", attacks=attacks, seed=0, **fields)
    reference.apgd = APGDAttack(function, n_iter=10, device="cpu", **fields)
    reference.apgd_targeted = APGDAttack_targeted(function, n_iter=10, n_target_classes=3, device="cpu", **fields)
    reference.fab.n_iter, reference.fab.n_target_classes, reference.square.n_queries = 10, 3, 50
    points: Tensor = reference.run_standard_evaluation(inputs, labels)[0]
    return points


class TestAgainstThePublishedCode:
    victim, batch = load_checkpoint("digits-vit"), load_dataset("digits").batch(0, 24)

    def right(self, inputs: Tensor, first: int) -> int:
        logits = self.victim.outputs(inputs)
        places = (logits > logits.gather(1, self.batch.targets[:, None])).sum(1)
        return int((places < first).sum())

    def test_top_5_is_that_of_the_point_that_it_leaves_and_not_of_the_first_that_fools(self) -> None:
        epsilon = Fraction(16, 255)
        theirs = library(self.victim.outputs, self.batch.inputs, self.batch.targets, epsilon)
        ours = made(of_few_steps(epsilon, "published"), self.batch, self.victim)
        first = made(of_few_steps(epsilon, "best"), self.batch, self.victim)
        assert self.right(ours, 1) == self.right(theirs, 1) == self.right(first, 1) == 0
        assert abs(self.right(ours, 5) - self.right(theirs, 5)) <= 3
        # As soon as it is fooled, the true class is still near the top.
        assert self.right(first, 5) >= self.right(theirs, 5) + 10

    def test_normalised_inputs_are_cut_and_left_as_it_cuts_and_leaves_them(self) -> None:
        epsilon, (mean, std) = Fraction(32, 255), self.victim.normalisation
        normalised = (self.batch.inputs - mean) / std
        theirs = library(lambda x: self.victim.outputs(x * std + mean), normalised, self.batch.targets, epsilon)
        theirs = theirs * std + mean
        ours = made(of_few_steps(epsilon, "published", **UNIT), self.batch, self.victim)
        whole = [(each - self.batch.inputs).abs().flatten(1).amax(1) < 1e-6 for each in (ours, theirs)]
        assert whole[0].tolist() == whole[1].tolist()
        assert 0 < int(whole[0].sum()) < 12
        assert self.right(ours, 1) == self.right(theirs, 1)
        assert abs(self.right(ours, 5) - self.right(theirs, 5)) <= 2
        # Values outside by more than the budget take the limit, in both.
        is_outside = (normalised < -float(epsilon)) & ~whole[0].view(-1, 1, 1, 1)
        assert int(is_outside.sum()) > 1000
        torch.testing.assert_close(ours[is_outside], theirs[is_outside], atol=1e-6, rtol=0)


class Bright(SmoothVictim):
    """A victim that errs where the first value is above 0.55."""

    def outputs(self, inputs: Tensor, seeds: Any = None) -> Tensor:
        first = inputs[:, 0, 0, 0]
        return torch.stack([0 * first, first - 0.55], 1)


class Walk:
    """A search through given values."""

    loss = staticmethod(margin_loss)

    def __init__(self, values: list[float]) -> None:
        self.values, self.num_steps = values, len(values) - 1

    def begin(self, problem: Problem, restart: int) -> State:
        return State(points=torch.full_like(problem.inputs, self.values[0]))

    def step(self, problem: Problem, state: State, step: int) -> State:
        seen = problem.evaluate(state.points, self.loss)
        return State(points=torch.full_like(state.points, self.values[step + 1]), seen=seen)


class TestPublished:
    @pytest.mark.parametrize(
        "declared", [SQUARE, APGD, replace(APGD, num_restarts=3), of_few_steps(EPSILON, "published")]
    )
    def test_what_stands_and_what_is_wrong_already_is_returned_clean(self, declared: Any) -> None:
        victim = SmoothVictim()
        batch = around_the_middle(victim, 24)
        # Some are wrong from the start.
        batch = replace(batch, targets=torch.where(torch.arange(24) % 6 == 0, (batch.targets + 1) % 4, batch.targets))
        points = made(declared, batch, victim)
        moved = (points != batch.inputs).flatten(1).any(1)
        fooled = victim.outputs(points).argmax(1) != batch.targets
        wrong = victim.outputs(batch.inputs).argmax(1) != batch.targets
        assert moved.tolist() == (fooled & ~wrong).tolist()
        assert int(wrong.sum()) == 4
        assert 2 <= int(moved.sum()) <= 18

    @pytest.mark.parametrize(
        ("fields", "left"),
        [
            ({"returns": "published"}, 0.58),
            ({"returns": "best"}, 0.7),
            ({"returns": "best", "stop": "at_success"}, 0.6),
            ({"returns": "published", "stop": "at_success"}, 0.6),
            ({"returns": "last"}, 0.52),
        ],
    )
    def test_of_a_search_it_is_the_last_point_that_fooled(self, fields: dict[str, Any], left: float) -> None:
        """A victim that errs above 0.55, and a search that goes past it, and back."""
        batch = replace(anywhere(3), inputs=torch.full((3, 3, 4, 4), 0.5), targets=torch.zeros(3).long())
        problem = problem_of(APGD, batch, Bright(), ExampleDraws(range(3)), 3)
        reached = search(Walk([0.5, 0.6, 0.7, 0.58, 0.52]), problem, num_restarts=1, **fields)
        torch.testing.assert_close(reached.points, torch.full_like(batch.inputs, left))

    def test_a_search_that_fooled_is_the_last_of_its_example(self) -> None:
        victim = SmoothVictim()
        batch = around_the_middle(victim, 24)
        one, three = (
            perturb(replace(APGD, num_restarts=number), batch, victim, ExampleDraws(range(24))) for number in (1, 3)
        )
        fell = (one.inputs != batch.inputs).flatten(1).any(1)
        assert 0 < int(fell.sum()) < 24
        assert torch.equal(one.inputs[fell], three.inputs[fell])
        assert torch.equal(present(one.num_gradients)[fell], present(three.num_gradients)[fell])
        assert bool((present(three.num_gradients)[~fell] > present(one.num_gradients)[~fell]).all())

    def test_scores_are_kept_where_the_point_is_asked_for_by_name(self) -> None:
        assert SQUARE.keeps_scores
        assert not replace(SQUARE, returns="best").keeps_scores
        assert of_few_steps(EPSILON, "published").keeps_scores
        assert not of_few_steps(EPSILON, "best").keeps_scores
        assert Sweep(attacks=(SQUARE, replace(SQUARE, epsilon=2 * EPSILON))).keeps_scores


class Normalising(SmoothVictim):
    """A victim whose channels have limits of their own in normalised space."""

    normalisation = (MEAN, STD)


class TestUnit:
    victim, batch = Normalising(), anywhere(16)

    @pytest.mark.parametrize(
        "declared", [PGD, APGD, SQUARE, Fgsm(epsilon=EPSILON), of_few_steps(EPSILON, "best", **UNIT)]
    )
    def test_all_points_are_those_of_the_budget_cut_to_the_unit_interval(self, declared: Any) -> None:
        declared = declared if declared.kind == "autoattack" else replace(declared, **UNIT)
        found = made(declared, self.batch, self.victim)
        points = (found - MEAN) / STD
        clean = (self.batch.inputs - MEAN) / STD
        whole = (points - clean).abs().flatten(1).amax(1) < 1e-6
        lower, upper = ((clean + sign * float(EPSILON)).clamp(0, 1) for sign in (-1, 1))
        inside = (points >= lower - 1e-6) & (points <= upper + 1e-6)
        assert bool((inside.flatten(1).all(1) | whole).all())
        assert bool(whole.any()) == (getattr(declared, "returns", "best") == "published")
        assert bool(((clean < 0) | (clean > 1)).any())
        assert IMAGES.rules.check_perturbed(found, self.batch.inputs, declared, self.victim)

    def test_cw_is_cut_as_by_the_limits_that_it_can_name_itself(self) -> None:
        fields: dict[str, Any] = {"num_steps": 20, "num_search_steps": 2, "initial_c": 1.0, "learning_rate": 0.05}
        named = Cw(**fields, space="normalised", clip="none", clip_min=0, clip_max=1)
        assert torch.equal(made(Cw(**fields, **UNIT), self.batch, self.victim), made(named, self.batch, self.victim))

    def test_predicted_labels_are_those_of_the_inputs_before_the_cut(self) -> None:
        declared = replace(PGD, labels="predicted", **UNIT)
        problem = problem_of(declared, self.batch, self.victim, ExampleDraws(range(16)), 16)
        assert problem.labels.tolist() == self.victim.outputs(self.batch.inputs).argmax(1).tolist()
        assert problem.labels.tolist() != problem.predict(problem.inputs).argmax(1).tolist()

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [(1.5, ContractError, "after normalisation, wanted"), (0.3, BudgetExceededError, "moved an input by")],
    )
    def test_what_leaves_the_limits_or_the_budget_is_refused(self, change: float, error: Any, message: str) -> None:
        declared = replace(PGD, **UNIT)
        cut = ((self.batch.inputs - MEAN) / STD).clamp(0, 1)
        assert IMAGES.rules.check_perturbed(cut * STD + MEAN, self.batch.inputs, declared, self.victim)
        cut[0, 0, 0, 0] += change if float(cut[0, 0, 0, 0]) <= 0.5 else -change
        with pytest.raises(error, match=message):
            IMAGES.rules.check_perturbed(cut * STD + MEAN, self.batch.inputs, declared, self.victim)

    def test_a_whole_input_is_let_pass_where_the_published_code_leaves_it_alone(self) -> None:
        inputs = self.batch.inputs
        distances = IMAGES.rules.check_perturbed(inputs, inputs, replace(SQUARE, **UNIT), self.victim)
        assert float(distances["linf"].max()) == 0
        with pytest.raises(ContractError, match=r"returned inputs from -1\.9.* after normalisation, wanted \[0, 1\]"):
            IMAGES.rules.check_perturbed(inputs, inputs, replace(SQUARE, returns="best", **UNIT), self.victim)
