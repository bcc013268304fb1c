"""Sigma-zero: a minimum-norm attack in l0 by Adam on a smooth number of changes.

Source: Cina et al. 2025, arXiv:2402.01879, algorithm 1: minimise over the change d within the box
    max(z_y - max_{i != y} z_i, 0) + mean_j d_j^2 / (d_j^2 + sigma),
by Adam on the gradient divided by its largest absolute value, with a step that falls to a tenth as half a cosine. After
each step the threshold rises by ``threshold_factor`` times the step where the point was adversarial and falls by as
much elsewhere, within [0, 1]; changes below it are undone.

The mean is over the values that may move. With ``unit: pixels`` d_j^2 is the sum over the channels of pixel j, whose
largest change is compared with the threshold; the paper has values alone. adv_lib 0.2.8 takes each step with the size
of the one before, and moves the threshold by that of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robench.attacks.fmn_impl import annealed
from robench.attacks.nearest import TINY, nearest_search
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import Moments, adam, spread
from robench.attacks.search import State
from robench.attacks.sigma_zero import SigmaZero
from robench.tasks.classification_impl import margin_loss

# The last step as a part of the first.
LAST = 0.1


def sigma_zero(declaration: SigmaZero, problem: Problem) -> Reached:
    """Return the nearest adversarial points (B, ...), and a mask of those found; the clean input elsewhere."""
    return nearest_search(declaration, _SigmaZero(declaration), problem)


def smooth_count_gradient(change: Tensor, sigma: float, num_values: Tensor, unit: str) -> Tensor:
    """Return the gradient (B, ...) of sum_j d_j^2 / (d_j^2 + sigma) over changes, divided by ``num_values`` (B,).

    With unit ``pixels`` d_j^2 is the sum over the channels of a pixel, and the sum over pixels.
    """
    squares = change.square().sum(1, keepdim=True) if unit == "pixels" else change.square()
    return 2 * sigma * change / (squares + sigma).square() / spread(num_values, change)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseState(State):
    """Points, Adam's moments, and thresholds (B,)."""

    moments: Moments
    thresholds: Tensor


class _SigmaZero:
    """Steps of sigma-zero."""

    def __init__(self, declaration: SigmaZero) -> None:
        self.declaration, self.num_steps = declaration, declaration.num_steps

    def begin(self, problem: Problem, points: Tensor) -> SparseState:
        thresholds = torch.full_like(points.flatten(1)[:, 0], self.declaration.threshold)
        return SparseState(points=points, moments=Moments.like(points), thresholds=thresholds)

    def step(self, problem: Problem, state: SparseState, step: int) -> SparseState:
        declaration, region, clean = self.declaration, problem.region, problem.inputs
        seen = problem.differentiate(state.points, margin_loss)
        counted = region.num_free
        if declaration.unit == "pixels":
            counted = counted / clean.shape[1]
        of_count = smooth_count_gradient(state.points - clean, declaration.sigma, counted, declaration.unit)
        is_right = spread(seen.values <= 0, clean)
        gradient = region.freed(torch.where(is_right, of_count - seen.gradient(), of_count))
        gradient = gradient / spread(gradient.flatten(1).abs().amax(1).clamp(min=TINY), gradient)
        direction, moments = adam(gradient, state.moments, step)
        size = annealed(declaration.step_size, LAST * declaration.step_size, step, self.num_steps)
        points = torch.clamp(state.points - size * direction, region.lower, region.upper)
        fooled, way = problem.fooled(seen.outputs), declaration.threshold_factor * size
        thresholds = torch.where(fooled, state.thresholds + way, state.thresholds - way).clamp(0, 1)
        sizes = (points - clean).abs()
        if declaration.unit == "pixels":
            sizes = sizes.amax(1, keepdim=True)
        points = torch.where(sizes < spread(thresholds, sizes), clean, points)
        return SparseState(points=points, seen=seen, moments=moments, thresholds=thresholds)
