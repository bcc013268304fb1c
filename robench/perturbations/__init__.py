"""What makes inputs harder: one algorithm a file, found by the class of its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.protocols import Perturbed
from robench.declarations.apgd_attack import Apgd
from robench.declarations.attack_base import Attack
from robench.declarations.attacks import Fgsm, GaussianNoise, Pgd, UniformNoise
from robench.declarations.audit import Audit
from robench.declarations.autoattack import AutoAttack
from robench.declarations.corruptions import Corruption
from robench.declarations.cw_attack import Cw
from robench.declarations.fab_attack import Fab
from robench.declarations.perturbations import Clean
from robench.declarations.sparse_l1_attack import SparseL1
from robench.declarations.spsa_attack import Spsa
from robench.declarations.square_attack import Square
from robench.declarations.sweep import Sweep
from robench.perturbations.attacks.apgd import apgd
from robench.perturbations.attacks.attack import attack
from robench.perturbations.attacks.autoattack import autoattack
from robench.perturbations.attacks.cw import cw
from robench.perturbations.attacks.fab import fab
from robench.perturbations.attacks.fgsm import fgsm
from robench.perturbations.attacks.noise import gaussian_noise, uniform_noise
from robench.perturbations.attacks.pgd import pgd
from robench.perturbations.attacks.sparse_l1 import sparse_l1
from robench.perturbations.attacks.spsa import spsa
from robench.perturbations.attacks.square import square
from robench.perturbations.backends.run import by_library
from robench.perturbations.clean import clean
from robench.perturbations.corruptions.corrupt import corrupt
from robench.perturbations.sweep import beginning_at, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from robench.core.protocols import Batch, Declaration, Draws, Perturbation, Victim
    from robench.perturbations.attacks.attack import AttackFunction

ATTACKS: Mapping[type, AttackFunction] = {
    UniformNoise: uniform_noise,
    GaussianNoise: gaussian_noise,
    Fgsm: fgsm,
    Pgd: pgd,
    Cw: cw,
    Fab: fab,
    Square: square,
    Spsa: spsa,
    SparseL1: sparse_l1,
    Apgd: apgd,
    AutoAttack: lambda declaration, problem: autoattack(declaration, problem, ATTACKS),
}
# Any: each perturbation takes its own declaration, which the key beside it names.
PERTURBATIONS: Mapping[type, Perturbation[Any]] = {Clean: clean, Audit: clean, Corruption: corrupt}


def perturb(
    declaration: Declaration,
    batch: Batch,
    victim: Victim,
    draws: Draws,
    batch_size: int | None = None,
    start: Tensor | None = None,
) -> Perturbed:
    """Return what ``declaration`` makes of ``batch``: inputs of the same shape, on the same device.

    ``batch_size`` is the most rows of one pass through the victim, by default all. ``start`` (B, ...), in pixels, is
    where an attack's first search begins in place of its usual start, of attacks that can (``declarations.sweep``).
    """
    if isinstance(declaration, Attack):
        function = ATTACKS[type(declaration)] if declaration.backend == "robench" else by_library
        function = function if start is None else beginning_at(function, start)
        return attack(function, declaration, batch, victim, draws, batch_size)
    return PERTURBATIONS[type(declaration)](declaration, batch, victim, draws)


def perturb_each(
    declaration: Declaration, batch: Batch, victim: Victim, draws: Draws, batch_size: int | None = None
) -> Iterator[tuple[Declaration, Perturbed]]:
    """Yield what each attack of a sweep made of ``batch``, in ascending order of budgets; of all else the one thing."""
    if isinstance(declaration, Sweep):
        yield from sweep(declaration, batch, victim, draws, batch_size, perturb)
    else:
        yield declaration, perturb(declaration, batch, victim, draws, batch_size)
