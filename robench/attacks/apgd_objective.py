"""Objective of auto-PGD searches, and the best point found, shared by its variants.

Source: Croce & Hein 2020, arXiv:2003.01690, equations 6 and 7, and x_max of Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robench.attacks.apgd import Apgd
from robench.attacks.problem import Passed, Problem
from robench.attacks.rows import chosen
from robench.devices import to_device
from robench.tasks.base import Loss
from robench.tasks.classification_impl import dlr_loss, targeted_dlr_loss


@dataclass(frozen=True, slots=True)
class Best:
    """Best point (B, ...) of each example so far in this search, with its gradient and its loss (B,)."""

    points: Tensor
    gradient: Tensor
    values: Tensor

    def updated(self, seen: Passed) -> Best:
        """Return the better of this and a pass, per example."""
        better = seen.values > self.values
        return Best(
            chosen(better, seen.points, self.points),
            chosen(better, seen.gradient(), self.gradient),
            torch.where(better, seen.values, self.values),
        )


class Targets:
    """Target class of each restart: all classes but the label, in the order of the clean logits.

    They are ranked once, so that a victim that draws random numbers is not given one class twice.
    """

    def __init__(self, problem: Problem, num_draws: int) -> None:
        here = problem.within("ranking").at(search=0, step=0)
        logits = here.evaluate(problem.inputs, dlr_loss, num_draws).outputs
        others = logits.scatter(1, problem.labels[:, None], -torch.inf)
        self._ranked = others.argsort(dim=1, descending=True, stable=True)[:, :-1]
        self._rows = problem.rows

    def of(self, problem: Problem, restart: int) -> Tensor:
        """Return the target classes (B,) of one restart for these rows, which are among the ranked ones."""
        places = to_device(torch.searchsorted(self._rows, problem.rows), self._ranked.device)
        return self._ranked[places, restart % self._ranked.shape[1]]


class Objective:
    """Loss of a search, and the loss used to compare the points of all searches."""

    def __init__(self, declaration: Apgd, problem: Problem) -> None:
        self._num_draws = declaration.num_draws
        is_targeted = declaration.loss == "dlr-targeted"
        self.compared: Loss = dlr_loss if is_targeted else problem.loss(declaration.loss)
        self._targets = Targets(problem, declaration.num_draws) if is_targeted else None

    def targets(self, problem: Problem, restart: int) -> Tensor | None:
        """Return the target classes (B,) of a restart, None for an untargeted one."""
        return None if self._targets is None else self._targets.of(problem, restart)

    def differentiate(self, problem: Problem, points: Tensor, targets: Tensor | None) -> Passed:
        """Return a pass with the search's own loss."""
        if targets is None:
            return problem.differentiate(points, self.compared, self._num_draws)
        return problem.differentiate(points, targeted_dlr_loss, self._num_draws, beside=[targets])

    def evaluate(self, problem: Problem, points: Tensor, targets: Tensor | None) -> Passed:
        """Return a pass with the search's own loss, without its gradient."""
        if targets is None:
            return problem.evaluate(points, self.compared, self._num_draws)
        return problem.evaluate(points, targeted_dlr_loss, self._num_draws, beside=[targets])

    def comparable(self, seen: Passed, problem: Problem) -> Passed:
        """Return a pass with the loss common to all searches."""
        return seen if self._targets is None else replace(seen, values=dlr_loss(seen.outputs, problem.labels))
