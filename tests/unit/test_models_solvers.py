"""Gradients through what a mechanism solves apart from the graph: the same scores, other gradients, left as it was."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import robench
from robench.attacks.pgd import Pgd
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

DIGITS = robench.load_dataset("digits")
BATCH = DIGITS.batch(0, 8)
NAIVE = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=3)
THROUGH = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=3, gradients="through_solvers")


@pytest.fixture(scope="module")
def released() -> robench.models.victim.LoadedModel:
    return robench.load_checkpoint("digits-spkde-released-vit")


def gradient(victim: robench.models.victim.LoadedModel) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = BATCH.inputs.clone().requires_grad_(True)
    logits = victim.outputs(inputs)
    (slope,) = torch.autograd.grad(logits.logsumexp(1).sum(), inputs)
    return logits.detach(), slope


def test_scores_are_the_same_and_gradients_are_not(released) -> None:
    own, through = gradient(released), gradient(released.through_solvers())
    assert torch.equal(own[0], through[0])
    assert (own[1] - through[1]).abs().max() > 1e-3 * own[1].abs().max()


def test_the_gradient_is_that_of_central_differences(released) -> None:
    victim, inputs = released.through_solvers(), BATCH.inputs[:2]
    _, slope = gradient(victim)
    direction = torch.sign(slope[:2])
    step = 2e-3
    ahead, behind = (
        victim.outputs(inputs + sign * step * direction).logsumexp(1).sum().double() for sign in (1.0, -1.0)
    )
    wanted = float((ahead - behind) / (2 * step))
    met = float((slope[:2] * direction).sum())
    _, own = gradient(released)
    cut = float((own[:2] * direction).sum())
    assert abs(met - wanted) < 0.1 * abs(wanted)
    assert abs(met - wanted) < abs(cut - wanted)


def test_the_victim_itself_keeps_its_own_gradients(released) -> None:
    before = gradient(released)[1]
    gradient(released.through_solvers())
    assert torch.equal(gradient(released)[1], before)


def test_so_it_does_where_a_pass_fails(released) -> None:
    before = gradient(released)[1]
    with pytest.raises(robench.core.errors.ContractError):
        released.through_solvers().outputs(BATCH.inputs[:, :1])
    assert torch.equal(gradient(released)[1], before)


def test_a_model_that_solves_nothing_has_the_same_gradients() -> None:
    victim = robench.load_checkpoint("digits-vit")
    assert torch.equal(gradient(victim)[1], gradient(victim.through_solvers())[1])


def test_an_attack_follows_the_gradients_that_it_is_declared_to(released) -> None:
    draws = ExampleDraws(range(len(BATCH.ids)))
    naive, through = (perturb(attack, BATCH, released, draws).inputs for attack in (NAIVE, THROUGH))
    assert not torch.equal(naive, through)
    plain = robench.load_checkpoint("digits-vit")
    assert torch.equal(*(perturb(attack, BATCH, plain, draws).inputs for attack in (NAIVE, THROUGH)))
