"""Pixelate: reduction and enlargement of the image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``pixelate`` of the published code, which is Pillow's resizing
with a box filter, both ways; the package ``imagecorruptions`` enlarges by nearest neighbour instead. Constants are
fractions of the image's sides. Images pass through the processor's memory. Where it differs: images more than twice as
tall as wide, whose columns Pillow takes first; here it takes rows first.
"""

import numpy as np
import torch
from PIL import Image

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength

# Fraction of the side in between.
SCALE: Strengths[float] = {"imagenet": (0.6, 0.5, 0.4, 0.3, 0.25), "cifar": (0.95, 0.9, 0.85, 0.75, 0.65)}
BOX = Image.Resampling.BOX


def pixelate(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, C, H, W), whole, made of larger pixels."""
    scale = strength(SCALE, declaration)
    height, width = levels.shape[-2:]
    between = max(1, int(width * scale)), max(1, int(height * scale))
    planes = levels.contiguous().cpu().numpy().astype(np.uint8).reshape(-1, height, width)
    result = np.empty_like(planes)
    for plane, pixelated in zip(planes, result, strict=True):
        small = box_resized(Image.fromarray(plane), *between)
        pixelated[:] = np.asarray(box_resized(small, width, height))
    return torch.from_numpy(result).view(levels.shape).to(levels.device).float()


def box_resized(image: Image.Image, width: int, height: int) -> Image.Image:
    """Return an image of another size by Pillow's box filter, rows before columns."""
    return image.resize((width, image.height), BOX).resize((width, height), BOX)
