"""Objective of auto-PGD searches, and the best point found, shared by its variants.

Source: Croce & Hein 2020, arXiv:2003.01690, equations 6 and 7, and x_max of Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robench.attacks.apgd import Apgd
from robench.attacks.problem import Passed, Problem
from robench.attacks.rows import chosen
from robench.devices import to_device
from robench.tasks.base import Loss, ManyAnswers
from robench.tasks.classification_impl import dlr_loss, lead_loss, margin_loss, targeted_dlr_loss

# Of each targeted loss, the one of a search and the one that compares the points of all.
TARGETED: Mapping[str, tuple[Loss, Loss]] = {
    "dlr-targeted": (targeted_dlr_loss, dlr_loss),
    "margin-targeted": (lead_loss, margin_loss),
}


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
        logits = here.evaluate(problem.inputs, margin_loss, num_draws).outputs
        others = logits.scatter(1, problem.labels[:, None], -torch.inf)
        self._ranked = others.argsort(dim=1, descending=True, stable=True)[:, :-1]
        self._rows = problem.rows

    def of(self, problem: Problem, restart: int) -> Tensor:
        """Return the target classes (B,) of one restart for these rows, which are among the ranked ones."""
        places = to_device(torch.searchsorted(self._rows, problem.rows), self._ranked.device)
        return self._ranked[places, restart % self._ranked.shape[1]]


class Objective:
    """Loss of a search, the loss by which its steps are judged, and the loss that compares the points of all searches.

    The first gives the gradients. The others are the same, but for targeted losses, and in tasks of many answers
    (``tasks.base.ManyAnswers``), which state one for both.
    """

    def __init__(self, declaration: Apgd, problem: Problem) -> None:
        self._num_draws = declaration.num_draws
        own, compared = TARGETED.get(declaration.loss, (None, None))
        self._own: Loss = problem.loss(declaration.loss) if own is None else own
        self._judge: Loss = problem.task.judged_by if isinstance(problem.task, ManyAnswers) else self._own
        self.compared: Loss = self._judge if compared is None else compared
        self._targets = None if compared is None else Targets(problem, declaration.num_draws)

    def targets(self, problem: Problem, restart: int) -> Tensor | None:
        """Return the target classes (B,) of a restart, None for an untargeted one."""
        return None if self._targets is None else self._targets.of(problem, restart)

    def differentiate(self, problem: Problem, points: Tensor, targets: Tensor | None) -> Passed:
        """Return a pass with the gradient of the search's own loss, and the values of the one that judges it."""
        seen = problem.differentiate(points, self._own, self._num_draws, beside=() if targets is None else [targets])
        if self._judge is self._own:
            return seen
        return replace(seen, values=self._judge(seen.outputs, problem.labels))

    def evaluate(self, problem: Problem, points: Tensor, targets: Tensor | None) -> Passed:
        """Return a pass with the loss that judges the search, without a gradient."""
        return problem.evaluate(points, self._judge, self._num_draws, beside=() if targets is None else [targets])

    def comparable(self, seen: Passed, problem: Problem) -> Passed:
        """Return a pass with the loss common to all searches."""
        return seen if self._targets is None else replace(seen, values=self.compared(seen.outputs, problem.labels))
