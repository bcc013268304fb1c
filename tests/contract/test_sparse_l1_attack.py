"""Sparse l1 descent: equal to the paper's equations and to the released code's, each where it is asked for."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from attack_examples import SHAPE, LinearVictim, SmoothVictim, anywhere, attacked, margins, predicted_by

from robench.attacks.regions import along_largest
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.sparse_l1_impl import num_largest
from robench.core.protocols import Model

Array = np.ndarray[Any, Any]
EXACT = SparseL1(epsilon=Fraction(2), step_size=Fraction(1, 2), num_steps=8, sparsity=0.9)
RESCALE = replace(EXACT, projection="rescale")
# What the papers' code runs, whatever epsilon it is called with.
RELEASED = SparseL1(
    epsilon=Fraction(10), step_size=Fraction(1), num_steps=20, sparsity=0.99, projection="rescale",
    space="normalised", clip="none", labels="predicted", returns="last",
)  # fmt: skip
BOTH = pytest.mark.parametrize("declaration", [EXACT, RESCALE], ids=["exact", "rescale"])


# The reference: one example at a time, in float64, coordinates chosen by sorting, projected by halving an interval.
class Reference:
    def __init__(self, declaration: SparseL1, victim: Model, target: int, scale: float = 1.0) -> None:
        self.declaration, self.victim, self.target, self.scale = declaration, victim, target, scale
        self.is_boxed = declaration.clip == "box"

    def run(self, clean: Array) -> Array:
        """Points after all steps; ``clean`` are in the attack's space, pixels are 0.5 + scale * points around 0.5."""
        points = clean.copy()
        for _ in range(self.declaration.num_steps):
            points = self.stepped(points, clean)
        return points

    def pixels(self, points: torch.Tensor) -> torch.Tensor:
        return points if self.scale == 1.0 else 0.5 + self.scale * points

    def gradient(self, points: Array) -> Array:
        at = torch.tensor(points).float().requires_grad_(True)
        logits = self.victim.outputs(self.pixels(at)[None])
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([self.target]))
        return torch.autograd.grad(loss, at)[0].double().numpy()

    def stepped(self, points: Array, clean: Array) -> Array:
        gradient = self.gradient(points)
        if self.is_boxed:
            gradient = np.where(((points >= 1) & (gradient > 0)) | ((points <= 0) & (gradient < 0)), 0, gradient)
        sizes = np.abs(gradient).ravel()
        percentile = np.sort(sizes)[max(int(self.declaration.sparsity * sizes.size), 1) - 1]
        chosen = np.sign(gradient) * (np.abs(gradient) >= percentile)
        points = points + float(self.declaration.step_size) * chosen / max(np.abs(chosen).sum(), 1)
        return self.exact(points, clean) if self.declaration.projection == "exact" else self.rescaled(points, clean)

    def boxed(self, points: Array) -> Array:
        return np.clip(points, 0, 1) if self.is_boxed else points

    def rescaled(self, points: Array, clean: Array) -> Array:
        change = self.boxed(points) - clean
        return self.boxed(
            clean + change * min(1.0, float(self.declaration.epsilon) / max(np.abs(change).sum(), 1e-300))
        )

    def exact(self, points: Array, clean: Array) -> Array:
        change = points - clean

        def shrunk(threshold: float) -> Array:
            return self.boxed(clean + np.sign(change) * np.maximum(np.abs(change) - threshold, 0)) - clean

        low, high = 0.0, float(np.abs(change).max())
        if np.abs(shrunk(0.0)).sum() <= self.declaration.epsilon:
            return clean + shrunk(0.0)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if np.abs(shrunk(middle)).sum() <= self.declaration.epsilon else (middle, high)
        return clean + shrunk(high)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9, 0.99])
@BOTH
def test_it_equals_its_reference(declaration: SparseL1, sparsity: float) -> None:
    batch, victim = anywhere(), SmoothVictim()
    batch.inputs[0], batch.inputs[1] = 0.0, batch.inputs[1].round()
    declaration = replace(declaration, sparsity=sparsity, returns="last")
    result = attacked(declaration, batch, victim).inputs.double().numpy()
    for row in range(6):
        expected = Reference(declaration, victim, int(batch.targets[row])).run(batch.inputs[row].double().numpy())
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


def test_the_released_protocol_equals_its_reference() -> None:
    victim = SmoothVictim()
    batch = predicted_by(victim, anywhere())
    result = attacked(RELEASED, replace(batch, targets=torch.zeros(6, dtype=torch.int64)), victim).inputs
    assert bool(((result < 0) | (result > 1)).any())
    for row in range(6):
        reference = Reference(RELEASED, victim, int(batch.targets[row]), scale=0.25)
        expected = reference.run((batch.inputs[row].double().numpy() - 0.5) / 0.25)
        np.testing.assert_allclose(result[row].double().numpy(), 0.5 + 0.25 * expected, atol=1e-5)


@BOTH
def test_with_the_box_inactive_it_reaches_what_its_coordinates_allow_of_a_linear_model(declaration: SparseL1) -> None:
    shape = (3, 4, 5)
    batch, victim = anywhere(low=0.45, high=0.55, shape=shape), LinearVictim(num_classes=2, shape=shape)
    batch.targets.zero_()
    epsilon = 0.5
    declaration = replace(declaration, epsilon=Fraction(1, 2), step_size=Fraction(1, 10), sparsity=0.99)
    gained = margins(attacked(declaration, batch, victim).inputs, batch, victim) - margins(batch.inputs, batch, victim)
    steepest = (victim.weight[1] - victim.weight[0]).abs().sort(descending=True).values
    # A hundredth of 60 coordinates, and the one at the percentile.
    torch.testing.assert_close(gained, epsilon * steepest[:2].mean().expand(6), atol=1e-4, rtol=0)
    assert float(gained.min()) > 0.9 * epsilon * float(steepest[0])


def test_at_the_border_of_the_box_the_next_coordinates_are_taken() -> None:
    batch, victim = anywhere(low=0.45, high=0.55), LinearVictim(num_classes=2)
    batch.targets.zero_()
    declaration = replace(EXACT, epsilon=Fraction(6), step_size=Fraction(1), num_steps=30, sparsity=0.95)
    result = attacked(declaration, batch, victim).inputs
    slope = (victim.weight[1] - victim.weight[0]).view(SHAPE)
    # The best change of a linear model fills coordinates up to the box, the steepest first.
    rooms = torch.where(slope > 0, 1 - batch.inputs, batch.inputs).flatten(1)
    order = slope.abs().flatten().argsort(descending=True)
    spent = (6 - (rooms[:, order].cumsum(1) - rooms[:, order])).clamp(min=0).minimum(rooms[:, order])
    best = (spent * slope.abs().flatten()[order]).sum(1)
    gained = margins(result, batch, victim) - margins(batch.inputs, batch, victim)
    assert bool((gained > 0.98 * best).all())
    assert bool((gained < 1.0001 * best).all())


def test_the_exact_projection_is_nearer_and_sparser_than_a_shorter_change() -> None:
    victim = SmoothVictim()
    batch = predicted_by(victim, anywhere(24, low=0.2, high=0.8))
    exact, rescale = (
        attacked(replace(each, sparsity=0.5, returns="last", num_steps=20), batch, victim).inputs
        for each in (EXACT, RESCALE)
    )
    assert not torch.equal(exact, rescale)
    num_changed = [int((points - batch.inputs).abs().gt(1e-6).sum()) for points in (exact, rescale)]
    assert num_changed[0] < num_changed[1]
    assert float(margins(exact, batch, victim).mean()) > float(margins(rescale, batch, victim).mean())


def test_a_step_goes_along_the_percentile_and_what_lies_above() -> None:
    gradient = torch.tensor([[4.0, -3.0, 2.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    expected = {0.9: [0.5, -0.5, 0, 0, 0], 0.95: [0.5, -0.5, 0, 0, 0], 0.75: [0.25, -0.25, 0.25, -0.25, 0]}
    for sparsity, first in expected.items():
        assert along_percentile(gradient, sparsity) == [*first, 0, 0, 0, 0, 0]
    # Of coordinates without a gradient none is moved, though they reach the percentile.
    assert along_percentile(gradient, 0.1) == pytest.approx([0.2, -0.2, 0.2, -0.2, 0.2, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.5, 0.75, 0.9, 0.99])
def test_as_many_coordinates_are_moved_as_reach_the_percentile(sparsity: float) -> None:
    for size in (1, 7, 60, 3072):
        sizes = np.arange(size)
        rank = max(int(sparsity * size), 1)
        assert num_largest(sparsity, size) == int((sizes >= np.sort(sizes)[rank - 1]).sum())


def along_percentile(gradient: torch.Tensor, sparsity: float) -> list[float]:
    (direction,) = along_largest(gradient, torch.tensor([num_largest(sparsity, gradient.shape[1])])).tolist()
    return direction
