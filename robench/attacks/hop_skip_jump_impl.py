"""HopSkipJump: steps along the estimated normal of the boundary of a victim that shows classes alone.

Source: Chen, Jordan & Wainwright 2020, arXiv:1904.02144, Algorithms 1 and 2, and the authors' code. A search begins at
uniform noise that fools the victim. Step t = 1, 2 ... estimates the boundary's normal from B0 sqrt(t) classes at random
points around (equation 16, with the mean of the classes as baseline), steps along it by the distance over sqrt(t),
halved until that fools the victim, and returns to the boundary by a binary search: on the line to the clean input in
l2, by clipping to smaller cubes around it in linf. Samples are 0.1 of the range away at first, then D^(1/2) theta d in
l2 and D theta d in linf, with the distance d before the last binary search and its error theta.

Where libraries differ: theta is gamma / D^(3/2) and gamma / D^2 in the authors' code and foolbox, 0.01 / D^(1/2) and
0.01 / D in ART. Here a search has a number of queries in place of a number of steps, and its nearest point is returned,
not its last. Noise often has one class alone (of digits-vit, 200 of 200 times): after ten tries it becomes darker and
brighter in turn, so that examples of that class are attacked too.
Axes: R rows of a step, S samples.
"""

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
# Proportion of the range of inputs at which the first samples lie; error of the blend of the first point in linf.
FIRST_DELTA, START_ERROR = 0.1, 1e-3
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
    """Search number ``restart`` for each of B examples, which are at ``places`` (B,) of the nearest points.

    Attributes:
        left: (B,) int64, queries that are left.
    """

    def __init__(
        self, declaration: HopSkipJump, problem: LabelProblem, nearest: Nearest, places: Tensor, restart: int
    ) -> None:
        self.declaration, self.problem, self.nearest, self.places = declaration, problem, nearest, places
        self.norm, self.restart, self.step = declaration.norm, restart, 0
        self.lower, self.upper = problem.region.lower, problem.region.upper
        self.left = torch.full_like(places, declaration.num_queries)
        size, power = problem.inputs[0].numel(), 0.5 if self.norm == "l2" else 1.0
        self.theta = declaration.gamma / size ** (1 + power)
        # Distance of samples from the boundary, as a proportion of that from the clean input.
        self.proportion = self.theta * size**power

    def run(self) -> None:
        """Search until the queries of all examples are used up."""
        rows, points = self.started()
        delta = FIRST_DELTA * (self.upper - self.lower).flatten(1).amax(1)[rows].double()
        if self.norm == "linf":
            points = self.bisected(rows, points, torch.ones_like(delta), START_ERROR + 0 * delta, is_cut=False)
        points, _ = self.to_boundary(rows, points)
        while True:
            self.step += 1
            num_samples = int(self.declaration.initial_evaluations * sqrt(self.step))
            num_samples = min(num_samples, self.declaration.max_evaluations)
            # A random victim may be fooled at the clean input, and nothing is nearer.
            can_go = indices_of((self.left[rows] > num_samples) & (delta > TINY))
            if not len(can_go):
                return
            rows, points, delta = rows[can_go], points[can_go], delta[can_go]
            normal = self.estimated(rows, points, delta, num_samples)
            moved, has_moved = self.moved(rows, points, normal.sign() if self.norm == "linf" else normal)
            rows = rows[has_moved]
            points, distances = self.to_boundary(rows, moved[has_moved])
            delta = self.proportion * distances

    def started(self) -> tuple[Tensor, Tensor]:
        """Return rows (R,) and first points (R, ...): noise that fools the victim."""
        points, waiting = self.problem.inputs.clone(), torch.arange(len(self.left), device=self.left.device)
        is_ready = torch.zeros_like(self.left, dtype=torch.bool)
        for attempt in range(MOST_STARTS):
            waiting = waiting[indices_of(~is_ready[waiting] & (self.left[waiting] > 0))]
            if not len(waiting):
                break
            stream = Stream(purpose="start", restart=self.restart, step=attempt)
            drawn = self.problem.take(waiting).draws.uniform(stream, points.shape[1:]) ** exponent_of(attempt)
            points[waiting] = self.lower[waiting] + drawn * (self.upper - self.lower)[waiting]
            is_ready[waiting] = self.ask(waiting, points[waiting])
        rows = indices_of(is_ready)
        return rows, points[rows]

    def estimated(self, rows: Tensor, points: Tensor, delta: Tensor, num_samples: int) -> Tensor:
        """Return unit directions (R, ...) toward points that fool, from samples at distances ``delta`` (R,)."""
        some = self.problem.take(rows).at(search=self.restart, step=self.step)
        lower, upper, centre = some.region.lower[:, None], some.region.upper[:, None], points[:, None]
        distance, signs = spread(delta.to(points.dtype), points)[:, None], points.new_zeros(len(rows))
        total, signed = torch.zeros_like(points), torch.zeros_like(points)
        for first in range(0, num_samples, SAMPLES_AT_ONCE):
            stream = Stream(purpose="samples", restart=self.restart, step=self.step, draw=first // SAMPLES_AT_ONCE)
            shape = SAMPLES_AT_ONCE, *points.shape[1:]
            drawn = some.draws.normal(stream, shape) if self.norm == "l2" else 2 * some.draws.uniform(stream, shape) - 1
            drawn = drawn[:, : num_samples - first].to(points)
            lengths = drawn.flatten(2).norm(dim=2, keepdim=True).clamp(min=TINY)
            drawn = (drawn.flatten(2) / lengths).view_as(drawn)
            samples = torch.clamp(centre + distance * drawn, lower, upper)
            changes = (samples - centre) / distance
            sign = torch.where(some.are_fooled(samples, range(samples.shape[1])), 1.0, -1.0).to(points)
            signs += sign.sum(1)
            total += changes.sum(1)
            signed += (sign[:, :, None] * changes.flatten(2)).sum(1).view_as(points)
        self.left[rows] -= num_samples
        mean = spread(signs / num_samples, points)
        normal = torch.where(mean.abs() == 1, mean * total, signed - mean * total)
        return normal / spread(normal.flatten(1).norm(dim=1).clamp(min=TINY), normal)

    def moved(self, rows: Tensor, points: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return points (R, ...) after a step, and the indices of points that fool, before the queries end."""
        lengths = self.distances(rows, points) / sqrt(self.step)
        found, has_moved = points.clone(), torch.zeros_like(rows, dtype=torch.bool)
        waiting = torch.arange(len(rows), device=rows.device)
        while len(waiting):
            of = rows[waiting]
            change = spread(lengths[waiting].to(points.dtype), points) * direction[waiting]
            found[waiting] = torch.clamp(points[waiting] + change, self.lower[of], self.upper[of])
            has_moved[waiting] = self.ask(of, found[waiting])
            waiting = waiting[indices_of(~has_moved[waiting] & (self.left[of] > 0))]
            lengths = lengths / 2
        return found, indices_of(has_moved)

    def to_boundary(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points (R, ...) at the boundary on the way to the clean inputs, and the distances (R,) before."""
        distances = self.distances(rows, points)
        highs = torch.ones_like(distances) if self.norm == "l2" else distances
        errors = torch.maximum(highs.clamp(max=1.0) * self.theta, highs * FINEST)
        return self.bisected(rows, points, highs, errors, is_cut=self.norm == "linf"), distances

    def bisected(self, rows: Tensor, points: Tensor, highs: Tensor, errors: Tensor, *, is_cut: bool) -> Tensor:
        """Return points that fool (R, ...), between the clean inputs at 0 and points that fool at ``highs`` (R,).

        A place between is the size of a cube to which points are cut, or else the weight of points in a blend.
        """
        found, lows = points.clone(), torch.zeros_like(highs)
        while True:
            going = indices_of((highs - lows > errors) & (self.left[rows] > 0))
            if not len(going):
                return found
            middles, inputs, far = (lows[going] + highs[going]) / 2, self.problem.inputs[rows[going]], points[going]
            place = spread(middles.to(points.dtype), points)
            trial = torch.clamp(far, inputs - place, inputs + place) if is_cut else (1 - place) * inputs + place * far
            is_fooled = self.ask(rows[going], trial)
            highs = highs.index_copy(0, going, torch.where(is_fooled, middles, highs[going]))
            lows[going] = torch.where(is_fooled, lows[going], middles)
            found[going] = torch.where(spread(is_fooled, trial), trial, found[going])

    def distances(self, rows: Tensor, points: Tensor) -> Tensor:
        """Return the distances (R,) of points (R, ...) from the clean inputs, in float64."""
        return length_of(points.double() - self.problem.inputs[rows].double(), self.norm)

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
