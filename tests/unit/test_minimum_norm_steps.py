"""Minimum-norm attacks by steps against loops of one example at a time in float64, and their parts by brute force."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from attack_examples import SHAPE, ConstantVictim, FunctionVictim, SmoothVictim, attacked, predicted_by
from numpy.typing import NDArray
from presence import present

from robench.attacks.attack import problem_of
from robench.attacks.base import Attack
from robench.attacks.ddn import Ddn
from robench.attacks.fmn import Fmn
from robench.attacks.nearest import drawn_places
from robench.attacks.pdpgd import Pdpgd
from robench.attacks.pdpgd_impl import proximal
from robench.attacks.problem import Problem
from robench.attacks.sigma_zero import SigmaZero
from robench.attacks.sigma_zero_impl import smooth_count_gradient
from robench.core.protocols import Batch
from robench.core.seeds import Stream
from robench.domains.images import IMAGES
from robench.perturbations.draws import ExampleDraws

Array = NDArray[np.float64]
NUM_EXAMPLES = 8
ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}
VICTIM = SmoothVictim()
VICTIM.weight = VICTIM.weight.double()
WEIGHT: Array = VICTIM.weight.numpy()


def examples(spread: float = 1.0) -> Batch:
    """Inputs in float64, some at the limits, with the victim's classes; a small spread brings three near a boundary."""
    inputs = 1.4 * torch.rand(NUM_EXAMPLES, *SHAPE, generator=torch.Generator().manual_seed(4)).double() - 0.2
    inputs[:3] = 0.5 + spread * (inputs[:3] - 0.5)
    ids = tuple(map(str, range(NUM_EXAMPLES)))
    empty = torch.zeros(NUM_EXAMPLES, dtype=torch.int64)
    return predicted_by(VICTIM, Batch(ids=ids, inputs=inputs.clamp(0, 1), targets=empty))


def problem_for(declared: Attack, batch: Batch, victim: Any = VICTIM) -> Problem:
    return problem_of(declared, batch, victim, ExampleDraws(range(len(batch.ids))), len(batch.ids))


def logits_of(x: Array) -> Array:
    return WEIGHT @ np.tanh(2 * x - 1).ravel()


def back(x: Array, of_logits: Array) -> Array:
    """The gradient by x of logits in the direction ``of_logits``."""
    return (of_logits @ WEIGHT).reshape(x.shape) * 2 * (1 - np.tanh(2 * x - 1) ** 2)


def margin_of(x: Array, label: int) -> tuple[float, Array]:
    """The best other logit minus the label's, and its gradient."""
    logits = logits_of(x)
    one = np.zeros_like(logits)
    one[label] = -1
    other = int(np.where(one < 0, -np.inf, logits).argmax())
    one[other] = 1
    return float(logits[other] - logits[label]), back(x, one)


def cross_entropy_gradient(x: Array, label: int) -> Array:
    logits = logits_of(x)
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    shares[label] -= 1
    return back(x, shares)


def half_cosine(first: float, last: float, part: float) -> float:
    return last + (first - last) * (1 + np.cos(np.pi * part)) / 2


def length(change: Array, norm: str, unit: str = "values") -> float:
    if norm == "l0":
        return float(((change != 0).any(0) if unit == "pixels" else change != 0).sum())
    return float(np.linalg.norm(change.ravel(), ORDERS[norm]))


def onto_ball(change: Array, radius: float, norm: str, unit: str) -> Array:
    if norm == "linf":
        return np.clip(change, -radius, radius)
    if norm == "l2":
        return change * min(1.0, radius / length(change, "l2"))
    if norm == "l1":
        low, high = 0.0, float(np.abs(change).max())
        if length(change, "l1") <= radius:
            return change
        for _ in range(200):
            middle = (low + high) / 2
            is_outside = float(np.maximum(np.abs(change) - middle, 0).sum()) > radius
            low, high = (middle, high) if is_outside else (low, middle)
        return np.sign(change) * np.maximum(np.abs(change) - high, 0)
    sizes = np.linalg.norm(change, axis=0) if unit == "pixels" else np.abs(change)
    kept = np.zeros(sizes.size, dtype=bool)
    kept[np.argsort(-sizes.ravel(), kind="stable")[: int(radius)]] = True
    return np.where(kept.reshape(sizes.shape), change, 0)


def points_of_ddn(declared: Ddn, x: Array, label: int) -> Iterator[Array]:
    point, radius = x, declared.initial_norm
    farthest = length(np.maximum(x, 1 - x), "l2")
    for step in range(declared.num_steps):
        yield point
        gradient = cross_entropy_gradient(point, label)
        is_fooled = int(logits_of(point).argmax()) != label
        radius = min(radius * (1 - declared.gamma if is_fooled else 1 + declared.gamma), farthest)
        moved = point - x + half_cosine(1, 0.01, step / declared.num_steps) * gradient / np.linalg.norm(gradient)
        point = np.clip(x + radius * moved / np.linalg.norm(moved), 0, 1)


def points_of_fmn(declared: Fmn, x: Array, label: int) -> Iterator[Array]:
    norm, unit = declared.norm, declared.unit
    point, radius, best = x, 1.0 if norm == "l0" else np.inf, np.inf
    farthest = length(np.maximum(x, 1 - x), norm, unit)
    for step in range(declared.num_steps):
        yield point
        margin, gradient = margin_of(point, label)
        far, part = length(point - x, norm, unit), step / declared.num_steps
        gamma = half_cosine(declared.gamma_initial, declared.gamma_final, part)
        if margin > 0:
            best = min(best, far)
            shorter = radius * (1 - gamma)
            radius = min(min(radius - 1, np.floor(shorter)) if norm == "l0" else shorter, best)
        elif norm == "l0":
            radius = max(radius + 1, np.floor(radius * (1 + gamma)))
        elif best < np.inf:
            radius *= 1 + gamma
        else:
            dual = {"linf": 1, "l2": 2, "l1": np.inf}[norm]
            radius = far + abs(margin) / float(np.linalg.norm(gradient.ravel(), dual))
            radius = max(radius, far * (1 + declared.overshoot))
        radius = min(radius, farthest)
        last = declared.alpha_initial / 100 if declared.alpha_final is None else declared.alpha_final
        alpha = half_cosine(declared.alpha_initial, last, part)
        point = np.clip(
            x + onto_ball(point - x + alpha * gradient / np.linalg.norm(gradient), radius, norm, unit), 0, 1
        )


class PlainAdam:
    def __init__(self) -> None:
        self.mean, self.square, self.count = 0.0 * WEIGHT[0], 0.0 * WEIGHT[0], 0

    def step(self, gradient: Array) -> tuple[Array, Array]:
        """The direction and its denominators."""
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient.ravel()
        self.square = 0.999 * self.square + 0.001 * gradient.ravel() ** 2
        scales = np.sqrt(self.square / (1 - 0.999**self.count)) + 1e-8
        direction = self.mean / (1 - 0.9**self.count) / scales
        return direction.reshape(gradient.shape), scales.reshape(gradient.shape)


def points_of_sigma_zero(declared: SigmaZero, x: Array, label: int) -> Iterator[Array]:
    point, threshold, adam = x, declared.threshold, PlainAdam()
    of_pixels = declared.unit == "pixels"
    for step in range(declared.num_steps):
        yield point
        margin, gradient = margin_of(point, label)
        change = point - x
        squares = (change**2).sum(0, keepdims=True) if of_pixels else change**2
        total = 2 * change * declared.sigma / (squares + declared.sigma) ** 2 / squares.size
        if margin <= 0:
            total = total - gradient
        direction, _ = adam.step(total / np.abs(total).max())
        size = half_cosine(declared.step_size, declared.step_size / 10, step / declared.num_steps)
        moved = np.clip(point - size * direction, 0, 1) - x
        threshold += (1 if margin > 0 else -1) * declared.threshold_factor * size
        threshold = min(max(threshold, 0.0), 1.0)
        sizes = np.abs(moved).max(0, keepdims=True) if of_pixels else np.abs(moved)
        point = np.where(sizes < threshold, x, x + moved)


def points_of_pdpgd(declared: Pdpgd, x: Array, label: int) -> Iterator[Array]:
    point, dual, adam, num = x, -np.log(0.01), PlainAdam(), declared.num_steps
    weight = 1 / (1 + np.exp(-dual))
    for step in range(num):
        yield point
        margin, gradient = margin_of(point, label)
        direction, scales = adam.step(-gradient / (1 + np.exp(margin)))
        size = declared.step_size * 0.01 ** (step / num)
        change = np.clip(point - size * direction, 0, 1) - x
        nearer, strength = change, size / scales.max() * (1 - weight) / weight
        for _ in range(5):
            aimed = nearer - scales / scales.max() * (nearer - change)
            if declared.norm == "l1":
                drawn = np.sign(aimed) * np.maximum(np.abs(aimed) - strength, 0)
            elif declared.norm == "l2":
                drawn = aimed * max(1 - strength / length(aimed, "l2"), 0)
            else:
                drawn = aimed - onto_ball(aimed, strength, "l1", "values")
            drawn = np.clip(x + drawn, 0, 1) - x
            moved, nearer = length(drawn - nearer, "l2"), drawn
            if moved <= 0.01 * length(drawn, "l2"):
                break
        point = x + nearer
        dual -= np.sign(margin) * declared.dual_step_size * (0.1 + 0.9 * (num - 1 - step) / (num - 1))
        dual = min(max(dual, np.log(1e-6)), -np.log(1e-6))
        weight = 0.9 * weight + 0.1 / (1 + np.exp(-dual))


STEPS: dict[str, tuple[Any, Callable[..., Iterator[Array]]]] = {
    "ddn": (Ddn(num_steps=30, initial_norm=0.5, gamma=0.1), points_of_ddn),
    "ddn-farthest": (Ddn(num_steps=6, initial_norm=6.0, gamma=0.2), points_of_ddn),
    "fmn": (Fmn(num_steps=30), points_of_fmn),
    "fmn-l2": (Fmn(num_steps=30, norm="l2", gamma_initial=0.2, alpha_final=0.1), points_of_fmn),
    "fmn-l1": (Fmn(num_steps=30, norm="l1", overshoot=0.0), points_of_fmn),
    "fmn-l0": (Fmn(num_steps=30, norm="l0", gamma_initial=0.4), points_of_fmn),
    "fmn-pixels": (Fmn(num_steps=30, norm="l0", unit="pixels", alpha_initial=2.0), points_of_fmn),
    "sigma-zero": (SigmaZero(num_steps=30, sigma=0.01, threshold=0.05, threshold_factor=0.3), points_of_sigma_zero),
    "sigma-zero-pixels": (SigmaZero(num_steps=30, unit="pixels", threshold_factor=0.05), points_of_sigma_zero),
    "pdpgd": (Pdpgd(num_steps=40, step_size=0.02), points_of_pdpgd),
    "pdpgd-l2": (Pdpgd(num_steps=40, norm="l2", step_size=0.02), points_of_pdpgd),
    "pdpgd-l1": (Pdpgd(num_steps=40, norm="l1", dual_step_size=8.0), points_of_pdpgd),
}


@pytest.mark.parametrize("name", STEPS)
def test_it_returns_the_nearest_point_of_a_plain_loop(name: str) -> None:
    declared, points_of = STEPS[name]
    # In other norms a first step would end at the boundary itself, where rounding decides.
    batch = examples(0.1 if declared.norm == "l0" else 1.0)
    reached = declared.implemented()(declared, problem_for(declared, batch))
    assert int(present(reached.found).sum()) >= NUM_EXAMPLES // 2
    for row, (clean, target) in enumerate(zip(batch.inputs, batch.targets, strict=True)):
        x, label = clean.numpy(), int(target)
        unit = getattr(declared, "unit", "values")
        fooling = [each for each in points_of(declared, x, label) if int(logits_of(each).argmax()) != label]
        best = min(fooling, key=lambda each: length(each - x, declared.norm, unit), default=x)
        assert bool(present(reached.found)[row]) is bool(fooling)
        np.testing.assert_allclose(reached.points[row].numpy(), best, atol=1e-7)


def test_without_overshooting_a_boundary_that_bends_away_is_never_crossed() -> None:
    batch = examples()
    for overshoot, num_found in ((0.0, 0), (0.01, NUM_EXAMPLES)):
        declared = Fmn(norm="l2", num_steps=30, overshoot=overshoot)
        reached = declared.implemented()(declared, problem_for(declared, batch))
        assert int(present(reached.found).sum()) == num_found


@pytest.mark.parametrize("unit", ["values", "pixels"])
def test_the_gradient_of_the_smooth_count_is_that_of_central_differences(unit: str) -> None:
    change = torch.randn(3, 3, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    change[0, 0, 0, 0] = 0
    num_values, sigma, step = torch.tensor([4.0, 12.0, 5.0]).double(), 0.3, 1e-6

    def smooth_count(moved: torch.Tensor) -> torch.Tensor:
        squares = moved.square().sum(1) if unit == "pixels" else moved.square()
        return (squares / (squares + sigma)).flatten(1).sum(1) / num_values

    found = smooth_count_gradient(change, sigma, num_values, unit)
    for place in np.ndindex(3, 2, 2):
        way = torch.zeros_like(change)
        way[(slice(None), *place)] = step
        slope = (smooth_count(change + way) - smooth_count(change - way)) / (2 * step)
        torch.testing.assert_close(found[(slice(None), *place)], slope, atol=1e-8, rtol=0)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_proximal_operator_minimises_distance_and_norm(norm: str) -> None:
    changes = torch.tensor([[0.7, -0.4], [0.3, 0.28], [-0.05, 0.6], [0.2, -0.1]]).double()
    weights = torch.tensor([0.3, 0.1, 0.05, 2.0]).double()
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 401)] * 2), -1).reshape(-1, 2)
    for change, weight, found in zip(changes, weights, proximal(changes, weights, norm), strict=True):
        z = np.concatenate([grid, found.numpy()[None]])
        costs = ((z - change.numpy()) ** 2).sum(1) / 2 + float(weight) * np.linalg.norm(z, ORDERS[norm], axis=1)
        assert costs[-1] <= costs[:-1].min() + 1e-12
        assert np.abs(z[costs[:-1].argmin()] - z[-1]).max() < 0.06


@pytest.mark.parametrize("unit", ["values", "pixels"])
@pytest.mark.parametrize("space", ["input", "normalised"])
@pytest.mark.parametrize("kind", [Fmn, SigmaZero])
def test_the_harness_counts_the_changes_that_were_minimised(kind: Any, space: Any, unit: Any) -> None:
    victim = SmoothVictim()
    generator = torch.Generator().manual_seed(4)
    batch = Batch(ids=tuple("abcdef"), inputs=torch.rand(6, *SHAPE, generator=generator), targets=torch.zeros(6).long())
    batch = predicted_by(victim, batch)
    declared = kind(num_steps=20, norm="l0", unit=unit, num_restarts=2, space=space)
    result = attacked(declared, batch, victim)
    assert bool(present(result.found).any())
    counted = IMAGES.rules.check_perturbed(result.inputs, batch.inputs, declared, victim)["num_changed"]
    moved = (result.inputs - batch.inputs).abs() > 1e-5
    assert counted.tolist() == (moved.any(1) if unit == "pixels" else moved).flatten(1).sum(1).tolist()
    assert 0 < int(counted[present(result.found)].max()) < (16 if unit == "pixels" else 48)


def test_ddn_leaves_a_plateau_in_directions_of_the_example_s_own() -> None:
    def far_from_grey(inputs: torch.Tensor) -> torch.Tensor:
        far = ((inputs - 0.5).flatten(1).norm(dim=1) > 0.2).float() + 0 * inputs.flatten(1).sum(1)
        return torch.stack([torch.full_like(far, 0.5), far], 1)

    batch = Batch(ids=("a", "b"), inputs=torch.full((2, *SHAPE), 0.5), targets=torch.zeros(2).long())
    declared = Ddn(num_steps=10, initial_norm=0.1, gamma=0.1)
    first, second = (attacked(declared, batch, FunctionVictim(far_from_grey)) for _ in range(2))
    assert present(first.found).tolist() == [True, True]
    assert torch.equal(first.inputs, second.inputs)
    moved = (first.inputs - 0.5).flatten(1)
    assert bool(((moved.norm(dim=1) > 0.2) & (moved.norm(dim=1) < 0.23)).all())
    assert abs(float(torch.nn.functional.cosine_similarity(moved[0], moved[1], dim=0))) < 0.6


def test_a_draw_that_fools_at_the_clean_input_ends_no_search() -> None:
    num_passes = 0

    def first_pass_is_wrong(inputs: torch.Tensor) -> torch.Tensor:
        nonlocal num_passes
        num_passes += 1
        lead = (0.6 - inputs.flatten(1).mean(1)) * (-1 if num_passes == 2 else 1)
        return torch.stack([lead, -lead], 1)

    batch = Batch(ids=("a",), inputs=torch.full((1, *SHAPE), 0.5), targets=torch.zeros(1).long())
    result = attacked(Fmn(num_steps=10), batch, FunctionVictim(first_pass_is_wrong))
    assert present(result.found).tolist() == [True]
    assert 0.1 <= float((result.inputs - 0.5).abs().max()) < 0.11


@pytest.mark.parametrize(("clip", "low", "high"), [("box", 0.0, 1.0), ("none", -0.5, 1.5)])
def test_searches_in_l0_start_again_at_as_many_drawn_values_or_pixels(clip: Any, low: float, high: float) -> None:
    batch = Batch(ids=tuple("abc"), inputs=torch.full((3, *SHAPE), 0.5), targets=torch.zeros(3).long())
    problem = problem_for(Fmn(num_steps=1, norm="l0", clip=clip), batch, ConstantVictim())
    counts = torch.tensor([0.5, 3.0, 7.5])
    streams = [Stream(purpose="start", restart=restart) for restart in (1, 2)]
    values, others = (drawn_places(problem, counts, "values", stream) for stream in streams)
    assert (values != 0.5).flatten(1).sum(1).tolist() == [1, 3, 8]
    assert not torch.equal(values != 0.5, others != 0.5)
    pixels = drawn_places(problem, counts, "pixels", streams[0])
    assert (pixels != 0.5).any(1).flatten(1).sum(1).tolist() == [1, 3, 8]
    assert (pixels != 0.5).all(1).flatten(1).sum(1).tolist() == [1, 3, 8]
    assert low <= float(pixels.min()) < 0.2
    assert 0.8 < float(pixels.max()) <= high
    is_free = torch.zeros(3, *SHAPE, dtype=torch.bool)
    is_free[:, 1] = True
    few = drawn_places(replace(problem, region=problem.region.only(is_free)), counts, "values", streams[0])
    assert (few != 0.5)[is_free].view(3, -1).sum(1).tolist() == (few != 0.5).flatten(1).sum(1).tolist() == [1, 3, 8]
