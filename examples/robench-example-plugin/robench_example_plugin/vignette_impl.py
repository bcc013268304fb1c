"""Vignette: x (1 - f r^2), r the distance from the brightest point over half the image's diagonal, clipped at 1.

The point lies within a tenth of a side of the middle; it belongs to the image, and severities share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from robench.core.protocols import Perturbed
from robench.core.seeds import Stream

if TYPE_CHECKING:
    from robench.core.protocols import Batch, Draws, Model

    from robench_example_plugin.vignette import Vignette

FALLOFFS = (0.3, 0.45, 0.6, 0.75, 0.9)


def vignette(declaration: Vignette, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return images (B, C, H, W) with dark borders, without using the model."""
    images = batch.inputs.detach()
    height, width = images.shape[-2:]
    # (B, 2, 1, 1), in sides of the image.
    shifts = 0.2 * draws.uniform(Stream(purpose="centre"), (2, 1, 1)) - 0.1
    rows = (torch.arange(height, device=images.device) + 0.5).view(1, height, 1) / height - 0.5
    columns = (torch.arange(width, device=images.device) + 0.5).view(1, 1, width) / width - 0.5
    squares = (2 * ((rows - shifts[:, 0]) ** 2 + (columns - shifts[:, 1]) ** 2)).clamp(max=1)
    light = 1 - FALLOFFS[declaration.severity - 1] * squares
    return Perturbed(inputs=images * light[:, None])
