"""Auxiliary losses of layers in training, such as the KSVD loss of Primal-Attention or the load balance of experts.

A model whose layers may have such losses declares it by an attribute ``takes_losses``, and takes a list ``losses_B``
beside its inputs, to which each such layer appends its loss, (B,). So does the method of a model that training calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn


def with_auxiliary(model: Callable[..., Tensor], inputs: Tensor, weight: float) -> tuple[Tensor, Tensor | None]:
    """Return the outputs (B, ...), and (B,) ``weight`` times the mean of the layers' losses; None for no weight."""
    if not weight:
        return model(inputs), None
    losses: list[Tensor] = []
    outputs = model(inputs, losses_B=losses)
    return outputs, weight * torch.stack(losses).mean(dim=0)


def check_auxiliary(
    model: nn.Module, inputs: Tensor, weight: float, method: Callable[..., Tensor] | None = None
) -> None:
    """Run the model, or a method of it, on ``inputs`` if ``weight`` is not zero; the global generators are restored.

    Raises:
        DeclarationError: no layer has an auxiliary loss.
    """
    if not weight:
        return
    losses: list[Tensor] = []
    if method is not None or getattr(model, "takes_losses", False):
        was_training = model.training
        model.eval()
        with torch.random.fork_rng(), torch.no_grad():
            (method or model)(inputs, losses_B=losses)
        model.train(was_training)
    if not losses:
        raise DeclarationError(
            f"auxiliary_weight is {weight:g}, but no layer of the model asks training for a loss, as Primal-Attention"
            " and experts do; leave it out of the entry's training"
        )
