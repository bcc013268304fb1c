"""Dispatch of declared perturbations: attacks through their harness, all others through their implementation."""

from collections.abc import Iterator

from robench.attacks.attack import AttackFunction, attack
from robench.attacks.backends.run import by_library
from robench.attacks.base import Attack
from robench.core.declared import PerturbationDeclaration
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.perturbations.sweep import Sweep
from robench.perturbations.sweep_impl import sweep


def perturb(
    declaration: PerturbationDeclaration, batch: Batch, model: Model, draws: Draws, batch_size: int | None = None
) -> Perturbed:
    """Return ``batch`` perturbed as declared: inputs of the same shape, on the same device.

    ``batch_size`` is the maximum number of rows per forward pass, by default all.
    """
    ((_, perturbed),) = perturb_each(declaration, batch, model, draws, batch_size)
    return perturbed


def perturb_each(
    declaration: PerturbationDeclaration, batch: Batch, model: Model, draws: Draws, batch_size: int | None = None
) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
    """Yield the result of each attack of a sweep on ``batch``, by ascending budget; otherwise the single result."""
    if isinstance(declaration, Attack):
        yield declaration, attack(function_of(declaration), declaration, batch, model, draws, batch_size)
    elif isinstance(declaration, Sweep):
        yield from sweep(declaration, batch, model, draws, batch_size, perturb)
    else:
        yield declaration, declaration.implemented()(declaration, batch, model, draws)


def function_of(declaration: Attack) -> AttackFunction:
    """Return robench's implementation of an attack, or that of its library."""
    function: AttackFunction = declaration.implemented() if declaration.backend == "robench" else by_library
    return function
