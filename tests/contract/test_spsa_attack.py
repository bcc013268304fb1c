"""SPSA: its estimates, its steps and its passes are those of the paper; or, where asked for, of the released code."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from attack_examples import SHAPE, LinearVictim, Module, SmoothVictim, anywhere, attacked, margins

import robench
from robench.attacks.spsa import Spsa
from robench.attacks.spsa_impl import PAIRS_AT_ONCE
from robench.core.seeds import Stream
from robench.perturbations.draws import ExampleDraws

Array = np.ndarray[Any, Any]
LINF = Spsa(
    epsilon=Fraction(8, 255), num_steps=6, learning_rate=Fraction(1, 100), delta=Fraction(1, 100), num_samples=13
)
L2 = replace(LINF, norm="l2", epsilon=Fraction(1, 4))
BOTH = pytest.mark.parametrize("declaration", [LINF, L2], ids=["linf", "l2"])


class WatchedModel(SmoothVictim):
    """Notes what it is shown with which seeds, and is never asked for a gradient."""

    def __init__(self, constant: float = 0.0) -> None:
        super().__init__(constant)
        self.shown: list[torch.Tensor] = []
        self.seeds: list[tuple[int, ...]] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        self.shown.append(inputs.clone())
        self.seeds.append(tuple(seeds or ()))
        return super().outputs(inputs)


# The reference: one example and one sample at a time, in float64, from the paper's algorithm and Adam's.
def reference(declaration: Spsa, clean: Array, target: int, seed: int) -> Array:
    draws, weight = ExampleDraws([seed]), WatchedModel().weight.double().numpy()
    epsilon, delta = float(declaration.epsilon), float(declaration.delta)

    def margin(points: Array) -> float:
        logits = weight @ np.tanh(2 * points - 1).ravel()
        return float(np.delete(logits, target).max() - logits[target])

    def projected(points: Array) -> Any:
        change = points - clean
        if declaration.norm == "linf":
            return np.clip(clean + np.clip(change, -epsilon, epsilon), 0, 1)
        return np.clip(clean + change * min(1.0, epsilon / max(float(np.linalg.norm(change)), 1e-300)), 0, 1)

    points, mean, square = clean, np.zeros(SHAPE), np.zeros(SHAPE)
    for step in range(1, declaration.num_steps + 1):
        estimates = []
        for sample in range(declaration.num_samples):
            stream = Stream(purpose="samples", step=step - 1, draw=sample // PAIRS_AT_ONCE)
            signs = draws.signs(stream, (PAIRS_AT_ONCE, *SHAPE))[0, sample % PAIRS_AT_ONCE].double().numpy()
            centre = points if declaration.formula == "paper" else 2 * clean
            rise = margin(centre + delta * signs) - margin(centre - delta * signs)
            estimates.append(rise / (2 * delta) * signs)
        gradient = np.mean(estimates, axis=0)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        move = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        points = projected(points + float(declaration.learning_rate) * move)
    return points


@pytest.mark.parametrize("formula", ["paper", "released"])
@BOTH
def test_it_equals_its_reference(declaration: Spsa, formula: Any) -> None:
    batch = anywhere()
    declaration = replace(declaration, random_start=False, returns="last", formula=formula)
    result = attacked(declaration, batch).inputs.double().numpy()
    for row in range(6):
        expected = reference(declaration, batch.inputs[row].double().numpy(), int(batch.targets[row]), row)
        np.testing.assert_allclose(result[row], expected, atol=2e-5)


def test_adam_is_that_of_torch() -> None:
    batch, declaration = anywhere(1), replace(LINF, epsilon=Fraction(1), random_start=False, returns="last")
    # Of a linear loss the estimate is a function of the signs alone, wherever it is made.
    victim = LinearVictim(num_classes=2)
    batch = replace(batch, inputs=torch.full((1, *SHAPE), 0.5), targets=torch.tensor([0]))
    slope = (victim.weight[1] - victim.weight[0]).view(SHAPE)
    change = torch.zeros(SHAPE, requires_grad=True)
    adam = torch.optim.Adam([change], lr=0.01, maximize=True)
    for step in range(declaration.num_steps):
        signs = torch.cat(
            [
                ExampleDraws([0]).signs(Stream(purpose="samples", step=step, draw=draw), (PAIRS_AT_ONCE, *SHAPE))[0]
                for draw in range(2)
            ]
        )[: declaration.num_samples]
        change.grad = ((signs * slope).flatten(1).sum(1)[:, None, None, None] * signs).mean(0)
        adam.step()
    result = attacked(declaration, batch, victim).inputs
    torch.testing.assert_close(result[0], 0.5 + change.detach(), atol=1e-4, rtol=0)


@pytest.mark.slow
def test_with_the_box_inactive_it_reaches_the_best_margin_of_a_linear_model() -> None:
    batch, victim = anywhere(low=0.3, high=0.7), LinearVictim(num_classes=2)
    batch.targets.zero_()
    slope = victim.weight[1] - victim.weight[0]
    for declaration, best, share in ((LINF, slope.abs().sum(), 0.95), (L2, slope.norm(), 0.85)):
        result = attacked(replace(declaration, num_steps=40, num_samples=256), batch, victim).inputs
        gained = margins(result, batch, victim) - margins(batch.inputs, batch, victim)
        assert float(gained.min()) > share * float(declaration.epsilon) * float(best)
        assert float(gained.max()) < 1.0001 * float(declaration.epsilon) * float(best)


@pytest.mark.parametrize("formula", ["paper", "released"])
def test_samples_lie_in_opposite_corners_around_the_point_or_around_twice_the_clean_input(formula: Any) -> None:
    batch, victim = anywhere(8), WatchedModel()
    attacked(replace(LINF, num_steps=3, num_samples=PAIRS_AT_ONCE, formula=formula), batch, victim, batch_size=128)
    # A pass at the points comes before each pass at their samples.
    assert [len(shown) for shown in victim.shown] == [8, 128, 8, 128, 8, 128, 8]
    for step in range(3):
        points = victim.shown[2 * step] if formula == "paper" else 2 * batch.inputs
        offsets = victim.shown[2 * step + 1].view(8, 2, PAIRS_AT_ONCE, *SHAPE) - points[:, None, None]
        torch.testing.assert_close(offsets.abs(), torch.full_like(offsets, 0.01), atol=1e-6, rtol=0)
        torch.testing.assert_close(offsets[:, 0], -offsets[:, 1], atol=1e-6, rtol=0)
        signs = offsets[:, 0].sign().flatten(0, 1).flatten(1)
        assert len(torch.unique(signs, dim=0)) == 8 * PAIRS_AT_ONCE


def test_both_samples_of_a_pair_meet_the_same_draw_and_pairs_meet_others() -> None:
    victim = WatchedModel()
    attacked(replace(LINF, num_steps=2, num_samples=2 * PAIRS_AT_ONCE), anywhere(8), victim, batch_size=128)
    met: set[int] = set()
    # Two passes at samples in each of two steps.
    for sampled in (1, 2, 4, 5):
        pairs = np.array(victim.seeds[sampled], dtype=object).reshape(8, 2, PAIRS_AT_ONCE)
        assert (pairs[:, 0] == pairs[:, 1]).all()
        met.update(pairs[:, 0].ravel())
    assert len(met) == 4 * 8 * PAIRS_AT_ONCE


@pytest.mark.parametrize("batch_size", [8, 13, 64, 1000])
def test_the_size_of_a_pass_does_not_matter(batch_size: int) -> None:
    batch, victim = anywhere(), WatchedModel()
    result = attacked(LINF, batch, victim, batch_size=batch_size).inputs
    torch.testing.assert_close(result, attacked(LINF, batch).inputs, atol=1e-4, rtol=0)
    assert all(len(shown) <= batch_size for shown in victim.shown)


@pytest.mark.parametrize("clip", ["box", "none"])
@pytest.mark.parametrize("formula", ["paper", "released"])
def test_the_papers_protocol_moves_normalised_images(clip: Any, formula: Any) -> None:
    batch = anywhere()
    declaration = replace(LINF, space="normalised", labels="predicted", clip=clip, formula=formula, returns="last")
    result = attacked(declaration, batch).inputs
    change = ((result - batch.inputs) / 0.25).flatten(1).abs()
    assert float(change.amax(1).max()) <= 8 / 255 + 1e-5
    assert float(change.amax(1).min()) > 0.9 * 8 / 255
    assert clip == "none" or float((result - 0.5).abs().max()) <= 0.5


def test_on_a_published_checkpoint_it_agrees_with_torchattacks() -> None:
    victim, batch = robench.load_checkpoint("digits-vit"), robench.load_dataset("digits").batch(0, 20)

    declaration = replace(
        LINF, epsilon=Fraction(32, 255), num_steps=5, num_samples=8, learning_rate=Fraction(1, 20),
        random_start=False, returns="last",
    )  # fmt: skip
    ours = attacked(declaration, batch, victim, batch_size=100).inputs
    with torch.random.fork_rng():
        torch.manual_seed(0)
        library = import_module("torchattacks").SPSA(
            Module(victim), eps=32 / 255, delta=0.01, lr=0.05, nb_iter=5, nb_sample=8, max_batch_size=8
        )
        theirs = library(batch.inputs, batch.targets)
    with torch.no_grad():
        right, right_of_theirs = (victim.outputs(x).argmax(1) == batch.targets for x in (ours, theirs))
    assert 0 < int(right_of_theirs.sum()) < 20
    assert int(right.sum()) <= int(right_of_theirs.sum()) + 1
    assert int((right == right_of_theirs).sum()) >= 18
