"""Auxiliary losses of layers in training, such as the KSVD loss of Primal-Attention.

A model whose layers may have such losses declares it by an attribute ``takes_losses``, and takes a list ``losses_B``
beside its images, to which each such layer appends its loss, (B,).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn


def logits_and_auxiliary(model: Callable[..., Tensor], images: Tensor, weight: float) -> tuple[Tensor, Tensor | None]:
    """Return logits (B, num_classes), and (B,) ``weight`` times the mean of the layers' losses; None for no weight."""
    if not weight:
        return model(images), None
    losses: list[Tensor] = []
    logits = model(images, losses_B=losses)
    return logits, weight * torch.stack(losses).mean(dim=0)


def check_auxiliary(model: nn.Module, images: Tensor, weight: float) -> None:
    """Run the model once on ``images`` if ``weight`` is not zero; the global generators are restored.

    Raises:
        DeclarationError: no layer has an auxiliary loss.
    """
    if not weight:
        return
    losses: list[Tensor] = []
    if getattr(model, "takes_losses", False):
        was_training = model.training
        model.eval()
        with torch.random.fork_rng(), torch.no_grad():
            model(images, losses_B=losses)
        model.train(was_training)
    if not losses:
        raise DeclarationError(
            f"auxiliary_weight is {weight:g}, but no layer of the model asks training for a loss, as Primal-Attention"
            " does; leave it out of the entry's training"
        )
