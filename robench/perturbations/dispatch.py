"""Runs what is declared: an attack in its harness, everything else by its implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attacks.attack import attack
from robench.attacks.backends.run import by_library
from robench.attacks.base import Attack
from robench.perturbations.sweep import Sweep
from robench.perturbations.sweep_impl import beginning_at, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from robench.attacks.attack import AttackFunction
    from robench.core.declared import PerturbationDeclaration
    from robench.core.protocols import Batch, Draws, Model, Perturbed


def perturb(
    declaration: PerturbationDeclaration,
    batch: Batch,
    model: Model,
    draws: Draws,
    batch_size: int | None = None,
    start: Tensor | None = None,
) -> Perturbed:
    """Return what ``declaration`` makes of ``batch``: inputs of the same shape, on the same device.

    ``batch_size`` is the most rows of one pass through the model, by default all. ``start`` (B, ...), in pixels, is
    where an attack's first search begins in place of its usual start, of attacks that can (``can_warm_start``).
    """
    if isinstance(declaration, Attack):
        function: AttackFunction = declaration.implemented() if declaration.backend == "robench" else by_library
        function = function if start is None else beginning_at(function, start)
        return attack(function, declaration, batch, model, draws, batch_size)
    perturbed: Perturbed = declaration.implemented()(declaration, batch, model, draws)
    return perturbed


def perturb_each(
    declaration: PerturbationDeclaration, batch: Batch, model: Model, draws: Draws, batch_size: int | None = None
) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
    """Yield what each attack of a sweep made of ``batch``, in ascending order of budgets; of all else the one thing."""
    if isinstance(declaration, Sweep):
        yield from sweep(declaration, batch, model, draws, batch_size, perturb)
    else:
        yield declaration, perturb(declaration, batch, model, draws, batch_size)
