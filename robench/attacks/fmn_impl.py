"""Minimum-norm attacks by steps of falling length, each onto a ball around the clean input, whose radius adapts.

At x = x_0 + d, with the gradient g of the loss and the length a of the step,
    x <- x_0 + project(d + a g / |g|_2, r), clipped to the box.

DDN (Rony et al. 2019, arXiv:1811.09600, algorithm 1), in l2: the loss is the cross-entropy; a falls from 1 to 0.01 by a
cosine; r <- (1 - gamma) r where x is adversarial, else (1 + gamma) r; d is rescaled to length r, also where it is
shorter. Where the gradient is zero, the step has a random direction.

FMN (Pintor et al. 2021, arXiv:2102.12827, algorithm 1): the loss is the margin L = max_{i != y} z_i - z_y; a and gamma
fall by a cosine; until a search has found a point r <- max(|d| + |L| / |g|_dual, (1 + overshoot) |d|), and afterwards
    r <- min((1 - gamma) r, the smallest |d| found) where x is adversarial, else (1 + gamma) r.
``overshoot`` is 0 in the paper and both libraries. In l2 the first term then approaches a boundary that bends away from
within and never crosses it: where logits are W tanh(2 x - 1), 60 steps find none of 8 examples, and all with 0.01.
In l0, r starts at 1 and changes by at least 1: min(r - 1, floor((1 - gamma) r)), or max(r + 1, floor((1 + gamma) r)).
The projection keeps the r values of largest change; with ``unit: pixels`` the pixels whose change is longest in l2.

No radius exceeds the distance to the farthest point of the box. N steps take N passes, as in adv_lib 0.2.8 and foolbox
3.3.4; the points after the last step are not evaluated. Differences from these: adv_lib rounds DDN's points to 8 bits
at each step (here ``pixels: 8bit`` rounds the nearest point alone) and its random directions are not of length 1; in
FMN it lengthens l2 changes that are shorter than r. foolbox does not project in l2, since its factor is the quotient of
a length by itself, and cannot be taken there; in l0 it keeps r + 1 values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor

from robench.attacks.ddn import Ddn
from robench.attacks.fmn import Fmn
from robench.attacks.nearest import TINY, nearest_search
from robench.attacks.problem import Problem, Reached
from robench.attacks.regions import onto_l1_balls, steepest
from robench.attacks.rows import chosen, largest, length_of, spread
from robench.attacks.search import State
from robench.core.seeds import Stream
from robench.tasks.classification_impl import margin_loss

DUAL = {"linf": "l1", "l2": "l2", "l1": "linf"}
# DDN's lengths of the first and of the last step.
LONGEST, SHORTEST = 1.0, 0.01


def ddn(declaration: Ddn, problem: Problem) -> Reached:
    """Return the nearest adversarial points (B, ...) of DDN, and a mask of those found; the clean input elsewhere."""
    return nearest_search(declaration, _Ddn(declaration), problem)


def fmn(declaration: Fmn, problem: Problem) -> Reached:
    """Return the nearest adversarial points (B, ...) of FMN, and a mask of those found; the clean input elsewhere."""
    return nearest_search(declaration, _Fmn(declaration), problem)


def annealed(initial: float, final: float, step: int, num_steps: int) -> float:
    """Return the value at a step, from 0: half a cosine from ``initial`` down to ``final`` at ``num_steps``."""
    return final + (initial - final) * (1 + cos(pi * step / num_steps)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BallState(State):
    """State of a search.

    Attributes:
        radii: (B,) float64, r; ``best``: the smallest distance found, infinite for none; ``farthest``: the distance to
            the farthest point of the box, infinite without one.
    """

    radii: Tensor
    best: Tensor
    farthest: Tensor

    @classmethod
    def at(cls, problem: Problem, points: Tensor, radii: Tensor, norm: str, unit: str = "values") -> BallState:
        """Return the state before the first step from points (B, ...)."""
        region = problem.region
        reach = torch.maximum(region.upper - problem.inputs, problem.inputs - region.lower)
        best = torch.full_like(radii, torch.inf)
        return cls(points=points, radii=radii, best=best, farthest=length_of(reach, norm, unit).double())


class _Ddn:
    """Steps of DDN; ``best`` is not used."""

    def __init__(self, declaration: Ddn) -> None:
        self.declaration, self.num_steps = declaration, declaration.num_steps

    def begin(self, problem: Problem, points: Tensor) -> BallState:
        radii = torch.full_like(problem.inputs.flatten(1)[:, 0], self.declaration.initial_norm, dtype=torch.float64)
        return BallState.at(problem, points, radii, "l2")

    def step(self, problem: Problem, state: BallState, step: int) -> BallState:
        gamma, region = self.declaration.gamma, problem.region
        seen = problem.differentiate(state.points, problem.loss("ce"))
        fooled = problem.fooled(seen.outputs)
        radii = torch.where(fooled, (1 - gamma) * state.radii, (1 + gamma) * state.radii).minimum(state.farthest)
        direction = _never_zero(problem, steepest(region.freed(seen.gradient()), "l2"))
        change = state.points - problem.inputs + annealed(LONGEST, SHORTEST, step, self.num_steps) * direction
        factors = radii / length_of(change, "l2").double().clamp(min=TINY)
        change = spread(factors.to(change.dtype), change) * change
        points = torch.clamp(problem.inputs + change, region.lower, region.upper)
        return BallState(points=points, seen=seen, radii=radii, best=state.best, farthest=state.farthest)


def _never_zero(problem: Problem, direction: Tensor) -> Tensor:
    """Return directions (B, ...), random ones of length 1 in l2 where they are zero."""
    is_zero = (direction == 0).flatten(1).all(1)
    if not bool(is_zero.any()):
        return direction
    stream = Stream(purpose="direction", restart=problem.address.search or 0, step=problem.address.step)
    drawn = problem.region.freed(problem.draws.normal(stream, direction.shape[1:]))
    return chosen(is_zero, steepest(drawn, "l2").to(direction), direction)


class _Fmn:
    """Steps of FMN."""

    def __init__(self, declaration: Fmn) -> None:
        self.declaration, self.num_steps = declaration, declaration.num_steps
        final, self.norm, self.unit = declaration.alpha_final, declaration.norm, declaration.unit
        self.alphas = declaration.alpha_initial, declaration.alpha_initial / 100 if final is None else final

    def begin(self, problem: Problem, points: Tensor) -> BallState:
        lengths = length_of((points - problem.inputs).double(), self.norm, self.unit)
        radii = lengths.clamp(min=1) if self.norm == "l0" else torch.full_like(lengths, torch.inf)
        return BallState.at(problem, points, radii, self.norm, self.unit)

    def step(self, problem: Problem, state: BallState, step: int) -> BallState:
        region = problem.region
        seen = problem.differentiate(state.points, margin_loss)
        fooled, gradient = problem.fooled(seen.outputs), region.freed(seen.gradient())
        lengths = length_of((state.points - problem.inputs).double(), self.norm, self.unit)
        # The clean input may fool a victim that draws: a radius of 0 would never grow again.
        fooled = fooled & (lengths > 0)
        best = torch.where(fooled, torch.minimum(state.best, lengths), state.best)
        gamma = annealed(self.declaration.gamma_initial, self.declaration.gamma_final, step, self.num_steps)
        shorter, longer = (1 - gamma) * state.radii, (1 + gamma) * state.radii
        if self.norm == "l0":
            shorter = torch.minimum(state.radii - 1, shorter.floor())
            longer = torch.maximum(state.radii + 1, longer.floor())
        else:
            slopes = length_of(gradient, DUAL[self.norm]).double().clamp(min=TINY)
            estimates = lengths + seen.values.abs().double() / slopes
            # Estimates from within a boundary that bends away may approach it and never cross.
            estimates = torch.maximum(estimates, (1 + self.declaration.overshoot) * lengths)
            longer = torch.where(best < torch.inf, longer, estimates)
        radii = torch.where(fooled, torch.minimum(shorter, best), longer).minimum(state.farthest)
        moved = state.points + annealed(*self.alphas, step, self.num_steps) * steepest(gradient, "l2")
        points = onto_balls(problem, moved, radii, self.norm, self.unit)
        return BallState(points=points, seen=seen, radii=radii, best=best, farthest=state.farthest)


def onto_balls(problem: Problem, points: Tensor, radii: Tensor, norm: str, unit: str = "values") -> Tensor:
    """Return the points (B, ...) projected onto balls of radii (B,) around the clean inputs, and clipped to the box."""
    clean, lower, upper = problem.inputs, problem.region.lower, problem.region.upper
    change = points - clean
    if norm == "l0":
        sizes = change.square().sum(1, keepdim=True) if unit == "pixels" else change.abs()
        return torch.where(largest(sizes, radii), torch.clamp(points, lower, upper), clean)
    if norm == "l1":
        change = onto_l1_balls(change, radii)
    elif norm == "l2":
        factors = (radii / length_of(change, "l2").double().clamp(min=TINY)).clamp(max=1)
        change = spread(factors.to(change.dtype), change) * change
    else:
        limits = spread(radii.to(change.dtype), change)
        change = torch.clamp(change, -limits, limits)
    return torch.clamp(clean + change, lower, upper)
