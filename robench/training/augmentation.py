"""Augmentation of embedded data: small shifts of images, and noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

if TYPE_CHECKING:
    from torch import Tensor


def shifted(images: Tensor, max_shift: int, generator: torch.Generator) -> Tensor:
    """Move each image (B, C, H, W) by up to ``max_shift`` pixels in each direction, repeating its border."""
    if max_shift == 0:
        return images
    num_images, _, height, width = images.shape
    padded = pad(images, [max_shift] * 4, mode="replicate")
    offsets = torch.randint(0, 2 * max_shift + 1, (2, num_images), generator=generator)
    rows = offsets[0][:, None] + torch.arange(height)
    columns = offsets[1][:, None] + torch.arange(width)
    index = torch.arange(num_images)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def noisy(inputs: Tensor, scale: float, generator: torch.Generator, limits: tuple[float, float] = (0.0, 1.0)) -> Tensor:
    """Add Gaussian noise of standard deviation ``scale`` to each value, and clip to the limits."""
    if scale == 0:
        return inputs
    return (inputs + scale * torch.randn(inputs.shape, generator=generator)).clamp(*limits)
