"""Projected gradient descent: iterated steps along the gradient, projected onto the budget.

Source: Madry et al. 2018, arXiv:1706.06083, section 2.1: x <- project(x + step * direction), with the direction of
steepest ascent in the norm; momentum after Dong et al. 2018, arXiv:1710.06081, equation 6 (gradients over their mean
absolute value, summed with a decay). In l1 a step goes along the largest 1 % of the coordinates that can still move, as
in Tramer & Boneh 2019, since a step along one coordinate alone gets nowhere in few steps.

Where libraries differ: torchattacks, cleverhans and the paper return the last point (``returns: last``), foolbox too;
``best`` is at least as strong for one pass more. foolbox' default step is relative to epsilon; here both are supported.
ART and torchattacks draw the l2 start from within a cube. cleverhans (torch) has no l1 form.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from robench.attacks.attention_losses import beside_of, with_attention
from robench.attacks.pgd import Pgd
from robench.attacks.places import placed
from robench.attacks.problem import Passed, Problem, Reached
from robench.attacks.regions import TINY, sparse_steepest, steepest
from robench.attacks.rows import spread
from robench.attacks.search import State, declared_search, starting_points
from robench.tasks.base import Loss, is_scheduled

L1_PROPORTION = 0.01


@dataclass(frozen=True, slots=True)
class PgdState(State):
    """Points, the accumulated gradients (None without momentum), and the arguments of a loss on attention."""

    direction: Tensor | None = None
    beside: tuple[Tensor, ...] = ()


class PgdSearch:
    """Search with steps of constant length.

    Points of a scheduled loss, whose values at different steps do not compare, are compared by the task's objective;
    those of a loss on attention by the loss on outputs alone.
    """

    def __init__(self, declaration: Pgd, problem: Problem) -> None:
        self.declaration = declaration
        self.num_steps = declaration.num_steps
        self._followed = problem.loss(declaration.loss)
        self.loss: Loss = problem.task.objective if is_scheduled(self._followed) else self._followed
        if declaration.attention is not None:
            self._followed = with_attention(declaration.attention, self.loss)

    def begin(self, problem: Problem, restart: int) -> PgdState:
        """Return the clean inputs, or random points of the region, and what a loss on attention compares with."""
        points = starting_points(problem, restart, is_random=self.declaration.random_start)
        term = self.declaration.attention
        return PgdState(points, beside=() if term is None else beside_of(term, problem))

    def step(self, problem: Problem, state: PgdState, step: int) -> PgdState:
        """Return the points after one projected step."""
        seen = self._differentiated(problem, state, step)
        gradient = direction = seen.gradient()
        if self.declaration.momentum:
            direction = gradient / spread(gradient.abs().flatten(1).mean(1).clamp(min=TINY), gradient)
            if state.direction is not None:
                direction = direction + self.declaration.momentum * state.direction
        # In place, since the direction is a tensor of its own: few passes over memory beside those of a small model.
        change = step_along(direction, problem, state.points).mul_(float(self.declaration.step_length))
        moved = change.add_(state.points)
        moved = problem.region.project(moved)
        return replace(state, points=moved, seen=seen, direction=direction if self.declaration.momentum else None)

    def _differentiated(self, problem: Problem, state: PgdState, step: int) -> Passed:
        points, beside = state.points, list(state.beside)
        if is_scheduled(self._followed):
            beside = [points.new_full((len(points),), step / self.num_steps)]
        seen = problem.differentiate(points, self._followed, self.declaration.num_draws, beside=beside)
        return seen if self._followed is self.loss else replace(seen, values=self.loss(seen.outputs, problem.labels))


def step_along(gradient: Tensor, problem: Problem, points: Tensor) -> Tensor:
    """Return the direction of a step, of length 1 in the region's norm."""
    region = problem.region
    if region.most is not None:
        # Not the sign, with which all coordinates would change alike and the projection could not choose.
        return gradient / spread(gradient.abs().flatten(1).amax(1).clamp(min=TINY), gradient)
    if region.norm != "l1":
        return steepest(gradient, region.norm)
    has_room = torch.where(gradient > 0, points < region.upper, points > region.lower)
    return sparse_steepest(gradient, L1_PROPORTION, has_room, region.free)


def limited(declaration: Pgd, problem: Problem) -> Problem:
    """Return the problem in the declared patches or pixels, whose passes show layers to a loss on attention."""
    return replace(placed(declaration, problem), shows_layers=declaration.attention is not None)


def pgd(declaration: Pgd, problem: Problem) -> Reached:
    """Return the best points (B, ...) of ``num_restarts`` searches of ``num_steps`` steps in the region."""
    # A lowest loss falls with the number of draws: last points have as many as the others.
    num_draws = 1 if declaration.over_draws == "mean" else declaration.num_draws
    search = PgdSearch(declaration, problem)
    return declared_search(declaration, search, problem, num_draws, partial(limited, declaration))
