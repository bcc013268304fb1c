"""JPEG compression by a real codec.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``jpeg_compression`` of the published code, which is Pillow's
codec with its default subsampling (4:2:0). Constants are Pillow's qualities. Images pass through the processor's
memory. Where it differs: nowhere, up to the release of libjpeg.
"""

from io import BytesIO

import numpy as np
import torch
from PIL import Image

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength

Planes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

QUALITY: Strengths[int] = {"imagenet": (25, 18, 15, 10, 7), "cifar": (80, 65, 58, 50, 40)}


def jpeg_compression(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), whole, compressed and read again."""
    return compressed(levels, strength(QUALITY, declaration))


def compressed(levels: torch.Tensor, quality: int) -> torch.Tensor:
    """Return whole levels (B, 3, H, W) as a JPEG file of ``quality`` keeps them."""
    # Numpy's conversion takes a sixth of the time of torch's.
    planes = levels.contiguous().cpu().numpy().astype(np.uint8)
    decoded = np.empty_like(planes)
    for image, result in zip(planes, decoded, strict=True):
        _through_file(image, quality, result)
    return torch.from_numpy(decoded).to(levels.device).float()


def _through_file(planes: Planes, quality: int, result: Planes) -> None:
    """Write the planes (3, H, W) as they are read from a file to ``result``."""
    # Pillow joins and splits planes several times as fast as they are transposed outside it.
    file = BytesIO()
    Image.merge("RGB", [Image.fromarray(plane) for plane in planes]).save(file, "JPEG", quality=quality)
    with Image.open(file) as image:
        for band, plane in zip(image.split(), result, strict=True):
            plane[:] = np.asarray(band)
