"""Prediction of inputs in forward passes of a fixed batch size, shared by all code that scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.protocols import Model


@torch.no_grad()
def predict(model: Model, inputs: torch.Tensor, seeds: Sequence[int], batch_size: int) -> torch.Tensor:
    """Return the outputs (B, ...) of one prediction of inputs (B, ...), in passes of ``batch_size`` rows."""
    starts = range(0, len(seeds), batch_size)
    passes = [model.outputs(inputs[at : at + batch_size], seeds[at : at + batch_size]) for at in starts]
    # One pass is not copied: its outputs may be large.
    return passes[0] if len(passes) == 1 else torch.cat(passes)
