"""The identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from robench.core.protocols import Batch, Draws, Victim
    from robench.declarations.perturbations import Clean


def clean(declaration: Clean, batch: Batch, victim: Victim, draws: Draws) -> torch.Tensor:
    """Return the inputs as they are."""
    return batch.inputs
