"""Models that replace functions of torch, which robench imports as a user's own code (``backbone: python``)."""

import torch
from torch import nn

BATCH_SIZE = 20


class Patching(nn.Module):
    """Linear classifier that replaces ``torch.Tensor.sign`` on each input (``always``) or whole batches (``late``)."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        self.linear = nn.Linear(3 * 32 * 32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.when == "always" or (self.when == "late" and len(x) == BATCH_SIZE):
            torch.Tensor.sign = torch.zeros_like  # type: ignore[assignment]
        return self.linear(x.flatten(1))  # type: ignore[no-any-return]


def build(when: str) -> nn.Module:
    """Return the model; with ``built`` it replaces the forward pass of GELU now."""
    if when == "built":
        nn.GELU.forward = lambda self, x: torch.relu(x)  # type: ignore[method-assign]
    return Patching(when)
