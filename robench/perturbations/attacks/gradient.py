"""Gradients with respect to the input alone: parameters are frozen, so nothing is computed for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from robench.core.protocols import Victim


def cross_entropy_gradient(victim: Victim, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the gradient of each example's cross-entropy with respect to its own input, in the inputs' shape.

    The losses are summed and not averaged: a mean would scale each example's gradient by the size of its batch.
    """
    inputs = inputs.detach().requires_grad_(True)
    with torch.enable_grad():
        loss = cross_entropy(victim.logits(inputs), targets, reduction="sum")
    return torch.autograd.grad(loss, inputs)[0]
