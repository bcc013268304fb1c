"""Sparse l1 descent: projected ascent along the coordinates of largest gradient.

Source: Tramer & Boneh 2019, arXiv:1904.13000, section 4: x <- project(x + step * e), where e has l1 length 1 and the
gradient's signs where its size is at least the q-th percentile, so that a step moves (1 - q) of the coordinates alike.
Coordinates at a bound of the box towards which they would go count as zero, as in foolbox.

Where libraries differ: cleverhans scales changes that are too long (``projection: rescale``) in place of taking the
nearest point, has no bounds by default, and loses its random start with bounds. Its steps move the d - floor(q d) + 1
largest of d coordinates and all that equal the last of them, as here; foolbox interpolates the percentile, which can
make it one fewer. foolbox projects onto the ball and then the box, here onto both at once. The papers' code calls
cleverhans with its defaults for any epsilon: epsilon 10, step 1, 20 steps, q = 0.99, no bounds, predicted labels.
"""

import torch
from torch import Tensor

from robench.attacks.problem import Problem, Reached
from robench.attacks.regions import Region, along_largest, shortened
from robench.attacks.search import State, declared_search, starting_points
from robench.attacks.sparse_l1 import SparseL1
from robench.tasks.base import Loss


class SparseL1Search:
    """Search along the coordinates of largest gradient."""

    def __init__(self, declaration: SparseL1, loss: Loss) -> None:
        self.declaration = declaration
        self.num_steps = declaration.num_steps
        self.loss = loss

    def begin(self, problem: Problem, restart: int) -> State:
        """Return the clean inputs, or random points of the ball."""
        return State(starting_points(problem, restart, is_random=self.declaration.random_start))

    def step(self, problem: Problem, state: State, step: int) -> State:
        """Return the points after one projected step."""
        seen = problem.differentiate(state.points, self.loss, self.declaration.num_draws)
        gradient, region = seen.gradient(), problem.region
        has_room = torch.where(gradient > 0, state.points < region.upper, state.points > region.lower)
        counts, most = self._counts(region)
        direction = along_largest(gradient * has_room, counts, most)
        moved = state.points + float(self.declaration.step_size) * direction
        if self.declaration.projection == "exact":
            return State(region.project(moved), seen)
        return State(rescaled(moved, problem.inputs, region), seen)

    def _counts(self, region: Region) -> tuple[Tensor, int]:
        """Return the number of coordinates (B,) that a step moves, and the largest; padding is not counted."""
        size, sparsity = region.clean[0].numel(), self.declaration.sparsity
        most = num_largest(sparsity, size)
        if region.free is None:
            return region.clean.new_full((len(region.clean),), most), most
        sizes = region.num_free.double()
        return sizes - (sparsity * sizes).floor().clamp(min=1) + 1, most


def num_largest(sparsity: float, size: int) -> int:
    """Return the number of ``size`` coordinates at or above the percentile.

    >>> num_largest(0.99, 1000)
    11
    """
    return size - max(int(sparsity * size), 1) + 1


def rescaled(points: Tensor, clean: Tensor, region: Region) -> Tensor:
    """Return points (B, ...) of the region: the changes of ``points``, clipped to the box and scaled."""
    change = (torch.clamp(points, region.lower, region.upper) - clean).flatten(1)
    lengths = change.abs().sum(dim=1, keepdim=True)
    change = torch.where(lengths > region.epsilon, change * (region.epsilon / lengths), change)
    cut = torch.clamp(clean + change.view_as(points), region.lower, region.upper)
    return shortened(cut, clean, region.epsilon, 1)


def sparse_l1(declaration: SparseL1, problem: Problem) -> Reached:
    """Return the best points (B, ...) of ``num_restarts`` searches of ``num_steps`` steps in the region."""
    search = SparseL1Search(declaration, problem.loss(declaration.loss))
    # A lowest loss falls with the number of draws: last points have as many as the others.
    num_draws = 1 if declaration.over_draws == "mean" else declaration.num_draws
    return declared_search(declaration, search, problem, num_draws)
