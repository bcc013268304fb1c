"""Implementation of sweeps: one attack at ascending budgets on the same examples.

Every budget has its own ledger and the same draws as the attack run alone, so that outcomes are the same. With
``carry`` only surviving examples continue to the next budget: a new final prediction, in the same passes as
the harness's, classifies them correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from robench.attacks.base import BoundedAttack
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.perturbations.draws import predict
from robench.perturbations.sweep import Sweep
from robench.tasks import task_of

# ``dispatch.perturb``: declaration, batch, model, draws and batch size.
Perturb = Callable[[BoundedAttack, Batch, Model, Draws, int], Perturbed]


def sweep(
    declaration: Sweep, batch: Batch, model: Model, draws: Draws, batch_size: int | None, perturb: Perturb
) -> Iterator[tuple[BoundedAttack, Perturbed]]:
    """Yield each attack with its result on ``batch``, by ascending budget."""
    size = len(batch.ids) if batch_size is None else batch_size
    before: Perturbed | None = None
    for attack in declaration.at_budgets:
        if declaration.carry and before is not None:
            before = _where_active(attack, batch, model, draws, size, perturb, before)
        else:
            before = perturb(attack, batch, model, draws, size)
        yield attack, before


def _where_active(
    attack: BoundedAttack,
    batch: Batch,
    model: Model,
    draws: Draws,
    batch_size: int,
    perturb: Perturb,
    before: Perturbed,
) -> Perturbed:
    """Return the previous budget's result, with surviving examples attacked again."""
    outputs = predict(model, before.inputs, draws.prediction_seeds, batch_size)
    places = (~task_of(batch).rules.is_fooled(outputs, batch.targets)).nonzero()[:, 0]
    inputs = before.inputs.clone()
    # Each example went through the prediction that decided whether it survives.
    num_queries = torch.ones(len(batch.ids), dtype=torch.int64)
    num_gradients = torch.zeros_like(num_queries)
    num_clamped = None if before.num_clamped is None else before.num_clamped.clone()
    if chosen := places.tolist():
        ids = tuple(batch.ids[place] for place in chosen)
        some = replace(batch, ids=ids, inputs=batch.inputs[places], targets=batch.targets[places])
        made = perturb(attack, some, model, draws.take(chosen), batch_size)
        inputs[places] = made.inputs
        for counts, made_count in ((num_queries, made.num_queries), (num_gradients, made.num_gradients)):
            counts[chosen] += 0 if made_count is None else made_count
        if num_clamped is not None and made.num_clamped is not None:
            num_clamped[places] = made.num_clamped
    return Perturbed(inputs=inputs, num_queries=num_queries, num_gradients=num_gradients, num_clamped=num_clamped)
