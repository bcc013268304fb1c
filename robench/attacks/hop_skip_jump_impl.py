"""HopSkipJump: steps along the estimated normal of the boundary of a victim of which only the class is known.

Source: Chen, Jordan & Wainwright 2020, arXiv:1904.02144, Algorithms 1 and 2, and the authors' code. A search begins at
uniform noise that fools the victim, blended with the clean input. Step t = 1, 2 ... estimates the boundary's normal
from B0 sqrt(t) classes at random points around (equation 16: with the mean of the classes as baseline), steps along it
by the distance over sqrt(t), halved until that fools the victim, and returns to the boundary by a binary search:
along the line to the clean input in l2, by clipping to smaller cubes around it in linf.

Where libraries differ: the distance of the samples is 0.1 of the range at first, then D^(1/2) theta d in l2 and D theta
d in linf, with the distance d before the last binary search. theta is gamma / D^(3/2) and gamma / D^2 in the authors'
code and foolbox, 0.01 / D^(1/2) and 0.01 / D in ART. Here each search has a number of queries in place of a number of
steps, and its nearest point is returned, not its last.
Axes: R rows of a step, S samples.
"""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from robench.attacks.hop_skip_jump import HopSkipJump
from robench.attacks.label_problem import LabelProblem
from robench.attacks.nearest import TINY
from robench.attacks.problem import Reached
from robench.attacks.rows import Nearest, length_of, spread
from robench.core.seeds import Stream
from robench.devices import indices_on_cpu, to_device

MOST_STARTS = 100
SAMPLES_AT_ONCE = 16
# Proportion of the range of inputs at which the first samples lie; error of the blend of the first point.
FIRST_DELTA = 0.1
START_TOLERANCE = 1e-3
# Smallest error of binary searches, below which points in float32 are the same.
FINEST = 2.0**-24


def hop_skip_jump(declaration: HopSkipJump, problem: LabelProblem) -> Reached:
    """Return the nearest points (B, ...) of all searches, and a mask (B,) of those found; the clean input elsewhere."""
    nearest = problem.begun(declaration.norm)
    active = indices_on_cpu(~nearest.found)
    rows, places = problem.take(active), to_device(active, problem.inputs.device)
    for restart in range(declaration.num_restarts if len(rows) else 0):
        Search(declaration, rows, nearest, places, restart).run()
    return problem.reached(nearest)


class Search:
    """One search for each of B examples.

    Args:
        declaration: the attack; ``problem``: the examples.
        nearest: nearest points of a batch; ``places``: (B,) indices of the examples in it.
        restart: number of the search.

    Attributes:
        left: (B,) int64, queries that are left.
    """

    def __init__(
        self, declaration: HopSkipJump, problem: LabelProblem, nearest: Nearest, places: Tensor, restart: int
    ) -> None:
        self.declaration, self.problem, self.nearest, self.places = declaration, problem, nearest, places
        self.norm, self.restart, self.step = declaration.norm, restart, 0
        self.left = torch.full_like(places, declaration.num_queries)
        size = problem.inputs[0].numel()
        power = 1.5 if self.norm == "l2" else 2.0
        self.theta = declaration.gamma / size**power
        # Distance of samples from the boundary, as a proportion of that from the clean input.
        self.proportion = self.theta * size ** (power - 1)

    def run(self) -> None:
        """Search until the queries of all examples are used up."""
        rows, points = self.started()
        delta = FIRST_DELTA * (self.problem.region.upper - self.problem.region.lower).flatten(1).amax(1)[rows].double()
        points, _ = self.to_boundary(rows, points)
        while True:
            self.step += 1
            num_samples = int(self.declaration.initial_evaluations * sqrt(self.step))
            num_samples = min(num_samples, self.declaration.max_evaluations)
            # A random victim may be fooled by the clean input, of which there is nothing nearer.
            can_go = indices_of((self.left[rows] > num_samples) & (delta > TINY))
            if not len(can_go):
                return
            rows, points, delta = rows[can_go], points[can_go], delta[can_go]
            normal = self.estimated(rows, points, delta, num_samples)
            moved, has_moved = self.moved(rows, points, normal.sign() if self.norm == "linf" else normal)
            rows, moved = rows[has_moved], moved[has_moved]
            points, distances = self.to_boundary(rows, moved)
            delta = self.proportion * distances

    def started(self) -> tuple[Tensor, Tensor]:
        """Return rows (R,) and first points (R, ...): noise that fools the victim, blended with the clean inputs."""
        lower, upper = self.problem.region.lower, self.problem.region.upper
        points = self.problem.inputs.clone()
        waiting, ready = torch.arange(len(points), device=points.device), []
        for attempt in range(MOST_STARTS):
            waiting = waiting[indices_of(self.left[waiting] > 0)]
            if not len(waiting):
                break
            stream = Stream(purpose="start", restart=self.restart, step=attempt)
            drawn = self.problem.take(waiting).draws.uniform(stream, points.shape[1:])
            trial = lower[waiting] + drawn ** exponent_of(attempt) * (upper - lower)[waiting]
            is_fooled = self.ask(waiting, trial)
            points[waiting] = trial
            ready.append(waiting[indices_of(is_fooled)])
            waiting = waiting[indices_of(~is_fooled)]
        rows = torch.cat(ready).sort().values if ready else waiting
        highs = torch.ones_like(rows, dtype=torch.float64)
        return rows, self.bisected(rows, points[rows], highs, 0 * highs + START_TOLERANCE, self.blended)

    def estimated(self, rows: Tensor, points: Tensor, delta: Tensor, num_samples: int) -> Tensor:
        """Return unit directions (R, ...) toward points that fool, from samples at distances ``delta`` (R,)."""
        some = self.problem.take(rows).at(search=self.restart, step=self.step)
        shape, lower, upper = points.shape[1:], some.region.lower[:, None], some.region.upper[:, None]
        centre, distance = points[:, None], spread(delta.to(points.dtype), points)[:, None]
        signs = points.new_zeros(len(rows))
        total, signed = torch.zeros_like(points), torch.zeros_like(points)
        for first in range(0, num_samples, SAMPLES_AT_ONCE):
            stream = Stream(purpose="samples", restart=self.restart, step=self.step, draw=first // SAMPLES_AT_ONCE)
            sizes = SAMPLES_AT_ONCE, *shape
            drawn = some.draws.normal(stream, sizes) if self.norm == "l2" else 2 * some.draws.uniform(stream, sizes) - 1
            drawn = drawn[:, : num_samples - first].to(points)
            lengths = drawn.flatten(2).norm(dim=2).clamp(min=TINY).view(*drawn.shape[:2], *[1] * len(shape))
            samples = torch.clamp(centre + distance * drawn / lengths, lower, upper)
            changes = (samples - centre) / distance
            is_fooled = some.are_fooled(samples, range(samples.shape[1]))
            sign = torch.where(is_fooled, 1.0, -1.0).to(points)
            signs += sign.sum(1)
            total += changes.sum(1)
            signed += (sign.view(*sign.shape, *[1] * len(shape)) * changes).sum(1)
        self.left[rows] -= num_samples
        mean = spread(signs / num_samples, points)
        normal = torch.where(mean.abs() == 1, mean * total, signed - mean * total)
        return normal / spread(normal.flatten(1).norm(dim=1).clamp(min=TINY), normal)

    def moved(self, rows: Tensor, points: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return points (R, ...) after a step that fools, and the indices of the rows with enough queries for one."""
        lower, upper = self.problem.region.lower, self.problem.region.upper
        lengths = length_of(points.double() - self.problem.inputs[rows].double(), self.norm) / sqrt(self.step)
        found, has_moved = points.clone(), torch.zeros_like(rows, dtype=torch.bool)
        waiting = torch.arange(len(rows), device=rows.device)
        while len(waiting):
            of = rows[waiting]
            change = spread(lengths[waiting].to(points.dtype), points) * direction[waiting]
            trial = torch.clamp(points[waiting] + change, lower[of], upper[of])
            is_fooled = self.ask(of, trial)
            found[waiting], has_moved[waiting] = trial, is_fooled
            waiting = waiting[indices_of(~is_fooled & (self.left[of] > 0))]
            lengths = lengths / 2
        return found, indices_of(has_moved)

    def to_boundary(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points (R, ...) at the boundary on the way to the clean inputs, and the distances (R,) before."""
        distances = length_of(points.double() - self.problem.inputs[rows].double(), self.norm)
        if self.norm == "l2":
            highs = torch.ones_like(distances)
            errors = highs * max(self.theta, FINEST)
            return self.bisected(rows, points, highs, errors, self.blended), distances
        errors = torch.maximum(distances.clamp(max=1.0) * self.theta, distances * FINEST)
        return self.bisected(rows, points, distances, errors, self.cut), distances

    def bisected(
        self, rows: Tensor, points: Tensor, highs: Tensor, errors: Tensor, between: Callable[..., Tensor]
    ) -> Tensor:
        """Return points that fool (R, ...), between the clean inputs at 0 and points that fool at ``highs`` (R,)."""
        points, found, lows, highs = points, points.clone(), 0 * highs, highs.clone()
        while True:
            going = indices_of((highs - lows > errors) & (self.left[rows] > 0))
            if not len(going):
                return found
            middles = (lows[going] + highs[going]) / 2
            trial = between(self.problem.inputs[rows[going]], points[going], spread(middles.to(points.dtype), points))
            is_fooled = self.ask(rows[going], trial)
            highs[going] = torch.where(is_fooled, middles, highs[going])
            lows[going] = torch.where(is_fooled, lows[going], middles)
            found[going] = torch.where(spread(is_fooled, trial), trial, found[going])

    def blended(self, inputs: Tensor, points: Tensor, weight: Tensor) -> Tensor:
        """Return points (R, ...) on the lines from the clean inputs (R, ...)."""
        return (1 - weight) * inputs + weight * points

    def cut(self, inputs: Tensor, points: Tensor, distance: Tensor) -> Tensor:
        """Return the points (R, ...) clipped to cubes around the clean inputs (R, ...)."""
        return torch.clamp(points, inputs - distance, inputs + distance)

    def ask(self, rows: Tensor, points: Tensor) -> Tensor:
        """Return whether points of some rows fool the victim, a query each, and keep them where they are nearest."""
        self.left[rows] -= 1
        is_fooled = self.problem.take(rows).at(search=self.restart, step=self.step).is_fooled(points)
        self.nearest.offer(self.places[rows], points, is_fooled)
        return is_fooled


def exponent_of(attempt: int) -> float:
    """Return the exponent of the uniform noise of a first point: 1 ten times, then 2, 1/2, 4, 1/4 and so on.

    >>> [exponent_of(attempt) for attempt in (0, 9, 10, 20, 30, 99)]
    [1.0, 1.0, 2.0, 0.5, 4.0, 32.0]
    """
    number = attempt // 10
    return float(2.0 ** ((number + 1) // 2 * (1 if number % 2 else -1)))


def indices_of(mask: Tensor) -> Tensor:
    """Return the indices of the rows of a mask (B,)."""
    return mask.nonzero()[:, 0]
