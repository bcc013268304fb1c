"""JPEG compression by a real codec.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``jpeg_compression`` of the published code, which is Pillow's
codec with its default subsampling (4:2:0). Constants are Pillow's qualities. Images pass through the processor's
memory. Where it differs: nowhere, up to the release of libjpeg.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image

from robench.corruptions.severities import Strengths, strength

if TYPE_CHECKING:
    from robench.core.protocols import Draws
    from robench.corruptions.corruption import Corruption

QUALITY: Strengths[int] = {"imagenet": (25, 18, 15, 10, 7), "cifar": (80, 65, 58, 50, 40)}


def jpeg_compression(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), whole, compressed and read again."""
    return compressed(levels, strength(QUALITY, declaration))


def compressed(levels: torch.Tensor, quality: int) -> torch.Tensor:
    """Return whole levels (B, 3, H, W) as a JPEG file of ``quality`` keeps them."""
    pixels = levels.to("cpu", torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    decoded = np.stack([_through_file(image, quality) for image in pixels])
    return torch.from_numpy(decoded).to(levels.device).permute(0, 3, 1, 2).float()


def _through_file(
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], quality: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    with Image.open(file) as image:
        return np.asarray(image)
