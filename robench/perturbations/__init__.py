"""What makes inputs harder: one algorithm a file, found by the class of its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.declarations.attacks import Fgsm, Pgd, UniformNoise
from robench.declarations.perturbations import Clean
from robench.perturbations.attacks.fgsm import fgsm
from robench.perturbations.attacks.pgd import pgd
from robench.perturbations.attacks.uniform_noise import uniform_noise
from robench.perturbations.clean import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from robench.core.protocols import Batch, Declaration, Draws, Perturbation, Victim

PERTURBATIONS: Mapping[type, Perturbation[Any]] = {
    Clean: clean,
    UniformNoise: uniform_noise,
    Fgsm: fgsm,
    Pgd: pgd,
}


def perturb(declaration: Declaration, batch: Batch, victim: Victim, draws: Draws) -> torch.Tensor:
    """Return what ``declaration`` makes of the inputs of ``batch``: same shape, same device."""
    return PERTURBATIONS[type(declaration)](declaration, batch, victim, draws)
