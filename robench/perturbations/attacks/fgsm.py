"""Fast gradient sign method.

Source: Goodfellow et al. 2015, arXiv:1412.6572, section 4: x' = x + epsilon * sign(gradient of the loss).
Differences: x' is cut to [0, 1], as foolbox and torchattacks do and the paper does not. Where the gradient is zero the
sign is zero and the pixel stays. The cross-entropy is of the true label (cleverhans takes the predicted one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.perturbations.attacks.ball import linf_ball
from robench.perturbations.attacks.gradient import cross_entropy_gradient

if TYPE_CHECKING:
    import torch

    from robench.core.protocols import Batch, Draws, Victim
    from robench.declarations.attacks import Fgsm


def fgsm(declaration: Fgsm, batch: Batch, victim: Victim, draws: Draws) -> torch.Tensor:
    """Return inputs (B, ...) one signed gradient step of length epsilon away, cut to [0, 1]."""
    gradient = cross_entropy_gradient(victim, batch.inputs, batch.targets)
    moved = batch.inputs + float(declaration.epsilon) * gradient.sign()
    return linf_ball(batch.inputs, declaration.epsilon).project(moved)
