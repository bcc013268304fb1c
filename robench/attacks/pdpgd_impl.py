"""Primal-dual proximal gradient descent: a minimum-norm attack with a weight of the margin that adapts.

Source: Matyasko & Chau 2021, arXiv:2106.01538, section 3: the saddle point over changes d within the box and weights w
of the simplex of
    w_0 |d| + w_1 softplus(m),  m = z_y - max_{i != y} z_i.
Each step goes down softplus(m) by Adam, whose denominators are h, and then applies the proximal operator of
s w_0 / w_1 |d|, s the step, in the metric of h: iterations z <- prox(z - h / max(h) (z - d)), as in proximal Adam
(Melchior et al. 2019, arXiv:1910.10094), at most five, or until z moves by at most a hundredth of its length. The
weights are the moving average of softmax(0, lambda); lambda rises by a dual step where the label leads, and falls where
it does not.

Constants are those of the authors' code as in adv_lib 0.2.8. It has a variant for l2 with the distance in the loss and
no proximal operator (``pdgd``); here l2 has the operator too. There the iterations also end once all rows of a batch
have converged, which changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from robench.attacks.nearest import TINY, nearest_search
from robench.attacks.pdpgd import Pdpgd
from robench.attacks.problem import Problem, Reached
from robench.attacks.regions import onto_l1_balls
from robench.attacks.rows import ADAM_EPSILON, SQUARE_DECAY, Moments, adam, length_of, spread
from robench.attacks.search import State
from robench.tasks.classification_impl import margin_loss

# The last primal and dual steps as parts of the first.
LAST, LAST_DUAL = 0.01, 0.1
# The first ratio w_0 / w_1, the smallest of w_0 / w_1 and w_1 / w_0, and the decay of the weights' average.
FIRST_RATIO, SMALLEST_RATIO, WEIGHT_DECAY = 0.01, 1e-6, 0.9
NUM_ITERATIONS, CONVERGED = 5, 0.01


def pdpgd(declaration: Pdpgd, problem: Problem) -> Reached:
    """Return the nearest adversarial points (B, ...), and a mask of those found; the clean input elsewhere."""
    return nearest_search(declaration, _Pdpgd(declaration), problem)


def proximal(change: Tensor, weights: Tensor, norm: str) -> Tensor:
    """Return argmin_z |z - d|_2^2 / 2 + weight |z| for changes d (B, ...) and weights (B,), in the norm."""
    of_rows = spread(weights.to(change.dtype), change)
    if norm == "l1":
        return torch.copysign((change.abs() - of_rows).clamp(min=0), change)
    if norm == "l2":
        return change * (1 - of_rows / spread(length_of(change, "l2").clamp(min=TINY), change)).clamp(min=0)
    return change - onto_l1_balls(change, weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class DualState(State):
    """Points, Adam's moments, and (B,) float64 each, lambda and the average of w_1."""

    moments: Moments
    duals: Tensor
    weights: Tensor


class _Pdpgd:
    """Steps of primal-dual proximal gradient descent."""

    def __init__(self, declaration: Pdpgd) -> None:
        self.declaration, self.num_steps = declaration, declaration.num_steps

    def begin(self, problem: Problem, points: Tensor) -> DualState:
        duals = torch.full_like(points.flatten(1)[:, 0], -log(FIRST_RATIO), dtype=torch.float64)
        return DualState(points=points, moments=Moments.like(points), duals=duals, weights=duals.sigmoid())

    def step(self, problem: Problem, state: DualState, step: int) -> DualState:
        declaration, region = self.declaration, problem.region
        seen = problem.differentiate(state.points, margin_loss)
        gradient = -spread(torch.sigmoid(-seen.values), state.points) * region.freed(seen.gradient())
        direction, moments = adam(gradient, state.moments, step)
        size = declaration.step_size * LAST ** (step / self.num_steps)
        points = torch.clamp(state.points - size * direction, region.lower, region.upper)
        scales = (moments.second / (1 - SQUARE_DECAY ** (step + 1))).sqrt() + ADAM_EPSILON
        ratios = size * (1 - state.weights) / state.weights
        points = _drawn_nearer(problem, points, scales, ratios, declaration.norm)
        rest = (self.num_steps - 1 - step) / max(self.num_steps - 1, 1)
        dual_size = declaration.dual_step_size * (LAST_DUAL + (1 - LAST_DUAL) * rest)
        most = -log(SMALLEST_RATIO)
        duals = (state.duals - dual_size * seen.values.double().sign()).clamp(-most, most)
        weights = torch.lerp(state.weights, duals.sigmoid(), 1 - WEIGHT_DECAY)
        return DualState(points=points, seen=seen, moments=moments, duals=duals, weights=weights)


def _drawn_nearer(problem: Problem, points: Tensor, scales: Tensor, ratios: Tensor, norm: str) -> Tensor:
    """Return the points (B, ...) after the proximal operator of the norm, weighted by ``ratios`` (B,), in a metric.

    ``scales`` (B, ...) are the diagonal of the metric.
    """
    clean, lower, upper = problem.inputs, problem.region.lower, problem.region.upper
    largest = scales.flatten(1).amax(1)
    metric, weights = scales / spread(largest, scales), ratios / largest.double()
    change = points - clean
    nearer, moves = change, torch.ones_like(ratios, dtype=torch.bool)
    for _ in range(NUM_ITERATIONS):
        drawn = proximal(nearer - metric * (nearer - change), weights, norm)
        drawn = torch.where(spread(moves, drawn), torch.clamp(clean + drawn, lower, upper) - clean, nearer)
        moves = length_of(drawn - nearer, "l2") > CONVERGED * length_of(drawn, "l2")
        nearer = drawn
    return torch.clamp(clean + nearer, lower, upper)
