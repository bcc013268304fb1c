"""Auto-PGD: projected gradient ascent with momentum and automatic halving of the step size.

Source: Croce & Hein 2020, arXiv:2003.01690, Algorithm 1. With S the region and f the loss,
    z(k+1) = P_S(x(k) + step * direction), and x(k+1) = P_S(x(k) + 0.75 (z(k+1) - x(k)) + 0.25 (x(k) - x(k-1))),
from random points of the ball, with a first step of 2 epsilon. At checkpoints w_j = ceil(p_j num_steps), p_1 = 0.22 and
p_(j+1) = p_j + max(p_j - p_(j-1) - 0.03, 0.06), an example's step is halved and its search goes on from its best point,
if since the last checkpoint f rose in less than 0.75 of the steps (condition 1), or the step was not halved then and
the best f has not risen since (condition 2). In l1 see ``apgd_l1``.

Loss ``dlr-targeted`` (equation 7) targets one class per restart; points of different restarts are then compared by the
untargeted ratio, which does not depend on the target. So does ``margin-targeted``, by differences of logits.

Where libraries differ: the paper's code (pyautoattack, and torchattacks after it) halves at exactly 0.75 too, and
compares the loss of the first step with zero; condition 2 never holds at its first checkpoint; after a restart from the
best point it counts a rise against the point that was left. It begins on the sphere of l2, and in l-infinity scales
each start to touch the ball. It continues with fooled examples until the last step, but does not restart for them. It
takes targets in the order of the clean logits from the second on, here from the first that is not the label's.

With shrinking radii in l-infinity (Croce, Singh & Hein 2024, arXiv:2306.12941, "red-eps", and the authors' code,
``apgd_largereps``) three searches follow each other, within 2, 1.5 and 1 epsilon and of 30, 30 and 40 % of the steps,
each with a first step and checkpoints of its own. The first begins at a random point of its ball, the others at the
projection of the best point of the one before: that of the fewest right answers, then of the highest loss. In that code
a later point with as many right answers replaces an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import torch
from torch import Tensor

from robench.attacks.apgd import Apgd
from robench.attacks.apgd_l1 import ApgdL1Search, Phase, phase_at, phases
from robench.attacks.apgd_objective import Best, Objective
from robench.attacks.attack import region_for
from robench.attacks.problem import Passed, Problem, Reached
from robench.attacks.regions import Region, steepest
from robench.attacks.rows import chosen, spread
from robench.attacks.search import State, declared_search, is_better, starting_points

MOMENTUM = 0.75
RISING_PROPORTION = 0.75
FIRST_STEP = 2.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Statistics that decide when steps are halved, (B,) each.

    Attributes:
        step_size: length of the next step; ``was_halved``: whether it was halved at the last checkpoint.
        num_rises: number of steps since then at which the loss rose; ``last_values``: the loss one step ago.
        best_values: the highest loss up to the last checkpoint.
    """

    step_size: Tensor
    was_halved: Tensor
    num_rises: Tensor
    last_values: Tensor
    best_values: Tensor

    def seeing(self, values: Tensor) -> Pace:
        """Return the statistics after one more loss."""
        return replace(self, num_rises=self.num_rises + (values > self.last_values), last_values=values)

    def stalled(self, best_values: Tensor, num_steps: int) -> Tensor:
        """Return (B,) whether condition 1 or 2 holds at a checkpoint, ``num_steps`` after the last one."""
        rises_rarely = self.num_rises < RISING_PROPORTION * num_steps
        return rises_rarely | (~self.was_halved & (best_values == self.best_values))

    def checked(self, halved: Tensor, best_values: Tensor) -> Pace:
        """Return the statistics after a checkpoint that halved steps and reset searches to their best point."""
        return Pace(
            step_size=torch.where(halved, self.step_size / 2, self.step_size),
            was_halved=halved,
            num_rises=torch.zeros_like(self.num_rises),
            last_values=torch.where(halved, best_values, self.last_values),
            best_values=best_values,
        )


@dataclass(frozen=True, slots=True)
class Leading:
    """Best points (B, ...) of a phase so far, with their numbers of right answers and losses, (B,) each."""

    points: Tensor
    num_right: Tensor
    values: Tensor

    @classmethod
    def first(cls, problem: Problem, seen: Passed) -> Leading:
        """Return the points of a pass."""
        return cls(seen.points, problem.num_right(seen.outputs), seen.values)

    def updated(self, problem: Problem, seen: Passed) -> Leading:
        """Return the better of these and the points of a pass, per example."""
        num_right = problem.num_right(seen.outputs)
        better = is_better((num_right, seen.values), (self.num_right, self.values))
        return Leading(
            chosen(better, seen.points, self.points),
            torch.where(better, num_right, self.num_right),
            torch.where(better, seen.values, self.values),
        )


@dataclass(frozen=True, slots=True)
class ApgdState(State):
    """State of a search; everything but the points is None before the first pass.

    Attributes:
        previous: (B, ...) points before the last step.
        targets: (B,) target classes of this search, for a targeted loss.
        leading: the point at which a next phase would begin; kept where there are several alone.
    """

    previous: Tensor | None = None
    best: Best | None = None
    pace: Pace | None = None
    targets: Tensor | None = None
    leading: Leading | None = None


class ApgdSearch:
    """Search by auto-PGD in l-infinity or l2."""

    def __init__(self, declaration: Apgd, problem: Problem) -> None:
        self.declaration = declaration
        self.num_steps = declaration.num_steps
        self.objective = Objective(declaration, problem)
        self.loss = self.objective.compared
        self.phases = phases(declaration.num_steps, declaration.wider)
        self.checkpoints = {each.start: checkpoints(each.num_steps) for each in self.phases}

    def begin(self, problem: Problem, restart: int) -> ApgdState:
        """Return random points of the first ball."""
        targets = self.objective.targets(problem, restart)
        within = replace(problem, region=self._region(self.phases[0], problem))
        return ApgdState(starting_points(within, restart), targets=targets)

    def step(self, problem: Problem, state: ApgdState, step: int) -> ApgdState:
        """Return the points after one step, which starts from the best point if steps were halved.

        Only passes within the budget are reported.
        """
        phase = phase_at(self.phases, step)
        region = self._region(phase, problem)
        if step and step == phase.start:
            state = ApgdState(self._carried(region, problem, state), targets=state.targets)
        seen = self.objective.differentiate(problem, state.points, state.targets)
        points, gradient = seen.points, seen.gradient()
        best = Best(points, gradient, seen.values) if state.best is None else state.best.updated(seen)
        pace = _first_pace(region, seen.values) if state.pace is None else state.pace.seeing(seen.values)
        num_since = self.checkpoints[phase.start].get(step - phase.start)
        if num_since is not None:
            halved = pace.stalled(best.values, num_since)
            pace = pace.checked(halved, best.values)
            points = chosen(halved, best.points, points)
            gradient = chosen(halved, best.gradient, gradient)
        moved = moved_along(gradient, points, state.previous, pace.step_size, region)
        if phase.is_last:
            return ApgdState(moved, self.objective.comparable(seen, problem), points, best, pace, state.targets)
        leading = state.leading
        leading = Leading.first(problem, seen) if leading is None else leading.updated(problem, seen)
        return ApgdState(moved, None, points, best, pace, state.targets, leading)

    def _region(self, phase: Phase, problem: Problem) -> Region:
        if phase.is_last:
            return problem.region
        wider = replace(self.declaration, epsilon=phase.factor * self.declaration.epsilon)
        around = problem.clean, problem.scale, problem.shift, problem.limits, problem.region.free
        return region_for(wider, *around)

    def _carried(self, region: Region, problem: Problem, state: ApgdState) -> Tensor:
        """Return the start of a phase: the projection of the best point of the previous one, its last one included."""
        assert state.leading is not None  # of a phase that another one follows
        seen = self.objective.evaluate(problem, state.points, state.targets)
        return region.project(state.leading.updated(problem, seen).points)


def moved_along(gradient: Tensor, points: Tensor, previous: Tensor | None, step_size: Tensor, region: Region) -> Tensor:
    """Return the points (B, ...) after a step with momentum; the first step has none."""
    direction = steepest(gradient, region.norm)
    ahead = region.project(torch.addcmul(points, spread(step_size, points), direction))
    if previous is None:
        return ahead
    # In this order, coordinates that do not move keep their exact value.
    return region.project(torch.lerp(points, ahead, MOMENTUM).add_(points - previous, alpha=1 - MOMENTUM))


def checkpoints(num_steps: int) -> dict[int, int]:
    """Return the steps at which searches are checked, and the number of steps since the previous check.

    >>> list(checkpoints(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    # In hundredths, which are exact.
    percentages, percentage, width = [0], 22, 22
    while percentage <= 100:
        percentages.append(percentage)
        width = max(width - 3, 6)
        percentage += width
    steps = [ceil(percentage * num_steps / 100) for percentage in percentages]
    return {after: after - before for before, after in pairwise(steps) if after > before}


def _first_pace(region: Region, values: Tensor) -> Pace:
    nothing = torch.zeros_like(values)
    step_size = torch.full_like(values, FIRST_STEP * region.epsilon)
    return Pace(step_size, was_halved=nothing.bool(), num_rises=nothing, last_values=values, best_values=values)


def apgd(declaration: Apgd, problem: Problem) -> Reached:
    """Return points (B, ...) of the region after ``num_steps`` steps, the best of ``num_restarts`` searches."""
    algorithm = (ApgdL1Search if declaration.norm == "l1" else ApgdSearch)(declaration, problem)
    return declared_search(declaration, algorithm, problem, declaration.num_draws)
