"""Implementation of sweeps: one attack at ascending budgets on the same examples.

Every budget has its own ledger and the same draws as the attack run alone, so that outcomes are the same. With
``carry`` only surviving examples continue to the next budget: a new final prediction, in the same passes as
the harness's, classifies them correctly. With ``warm_start`` a budget's first search starts from the previous budget's
result, which lies within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from robench.attacks.attack import AttackFunction
from robench.attacks.base import BoundedAttack
from robench.attacks.problem import Problem, Reached
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.perturbations.draws import predict
from robench.perturbations.sweep import Sweep
from robench.tasks import task_of

# ``dispatch.perturb``: declaration, batch, model, draws, batch size, and the start of the first search.
Perturb = Callable[[BoundedAttack, Batch, Model, Draws, int, Tensor | None], Perturbed]


def sweep(
    declaration: Sweep, batch: Batch, model: Model, draws: Draws, batch_size: int | None, perturb: Perturb
) -> Iterator[tuple[BoundedAttack, Perturbed]]:
    """Yield each attack with its result on ``batch``, by ascending budget."""
    attacked = _Attacked(batch, model, draws, len(batch.ids) if batch_size is None else batch_size, perturb)
    before: Perturbed | None = None
    for attack in declaration.at_budgets:
        start = before.inputs if declaration.warm_start and before is not None else None
        if declaration.carry and before is not None:
            before = attacked.where_active(attack, before, start)
        else:
            before = attacked.everywhere(attack, start)
        yield attack, before


def beginning_at(function: AttackFunction, start: Tensor) -> AttackFunction:
    """Return the attack with its first search starting at ``start`` (B, ...), in pixels."""

    # Any: of the attack's own declaration.
    def attack(declaration: Any, problem: Problem) -> Reached:
        points = problem.region.project((start - problem.shift) / problem.scale)
        return function(declaration, replace(problem, start=points))

    return attack


@dataclass(frozen=True, slots=True)
class _Attacked:
    """State shared by all budgets."""

    batch: Batch
    model: Model
    draws: Draws
    batch_size: int
    perturb: Perturb

    def everywhere(self, attack: BoundedAttack, start: Tensor | None) -> Perturbed:
        """Attack the whole batch."""
        return self.perturb(attack, self.batch, self.model, self.draws, self.batch_size, start)

    def where_active(self, attack: BoundedAttack, before: Perturbed, start: Tensor | None) -> Perturbed:
        """Return the previous budget's result, with surviving examples attacked again."""
        places = self._surviving(before.inputs)
        inputs = before.inputs.clone()
        # Each example went through the prediction that decided whether it survives.
        num_queries = torch.ones(len(self.batch.ids), dtype=torch.int64)
        num_gradients = torch.zeros_like(num_queries)
        num_clamped = None if before.num_clamped is None else before.num_clamped.clone()
        if chosen := places.tolist():
            made = self._taken(chosen, places).everywhere(attack, None if start is None else start[places])
            inputs[places] = made.inputs
            for counts, made_count in ((num_queries, made.num_queries), (num_gradients, made.num_gradients)):
                counts[chosen] += 0 if made_count is None else made_count
            if num_clamped is not None and made.num_clamped is not None:
                num_clamped[places] = made.num_clamped
        return Perturbed(inputs=inputs, num_queries=num_queries, num_gradients=num_gradients, num_clamped=num_clamped)

    def _surviving(self, inputs: Tensor) -> Tensor:
        """Return the indices of the examples that the final prediction of inputs (B, ...) classifies correctly."""
        outputs = predict(self.model, inputs, self.draws.prediction_seeds, self.batch_size)
        rules = task_of(self.batch).rules
        return (~rules.is_fooled(outputs, self.batch.targets)).nonzero()[:, 0]

    def _taken(self, chosen: list[int], places: Tensor) -> _Attacked:
        batch = replace(
            self.batch,
            ids=tuple(self.batch.ids[place] for place in chosen),
            inputs=self.batch.inputs[places],
            targets=self.batch.targets[places],
        )
        return replace(self, batch=batch, draws=self.draws.take(chosen))
