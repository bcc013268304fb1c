"""Plasma: fractal noise by the diamond-square algorithm.

Source: Fournier, Fussell and Carpenter 1982 (doi:10.1145/358523.358553), as ``plasma_fractal`` of the code published
with arXiv:1903.12261 has it: the map's ends meet, its first value is 0, and its noise is uniform within plus or minus
the square of what begins at 100 and is divided by ``decay`` at each halving of the step. Where it differs: float32.
"""

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream

WIBBLE = 100.0


def plasma(draws: Draws, purpose: str, num_examples: int, shape: torch.Size, decay: float) -> torch.Tensor:
    """Return (B, H, W) float32 maps in [0, 1] for images of ``shape`` (..., H, W), on the device of the draws.

    The map is as large as the next power of two, and what the image needs is cut from its corner. ``decay`` divides the
    root of the noise's width at each halving of the step.
    """
    height, width = shape[-2:]
    size = max(2, 1 << (max(height, width) - 1).bit_length())
    noise = draws.uniform(Stream(purpose=purpose), (size * size - 1,)) * 2.0 - 1.0
    heights = torch.zeros(num_examples, 1, 1, device=noise.device)
    wibble = WIBBLE
    for level in range(size.bit_length() - 1):
        cells = 1 << level
        # All coarser levels together have a value for each place of the map so far, but the first.
        of_level = noise[:, cells * cells - 1 : 4 * cells * cells - 1].view(-1, 3, cells, cells)
        heights = refined(heights, of_level * wibble**2)
        wibble /= decay
    heights = heights - heights.amin((1, 2), keepdim=True)
    return (heights / heights.amax((1, 2), keepdim=True))[:, :height, :width]


def refined(corners: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return maps (B, 2N, 2N) from corners (B, N, N) and the noise (B, 3, N, N) of middles, tops and sides."""
    right = torch.roll(corners, -1, 2)
    below = torch.roll(corners, -1, 1)
    middles = (corners + below + right + torch.roll(right, -1, 1)) / 4.0 + noise[:, 0]
    tops = (middles + torch.roll(middles, 1, 1) + corners + right) / 4.0 + noise[:, 1]
    sides = (middles + torch.roll(middles, 1, 2) + corners + below) / 4.0 + noise[:, 2]
    pairs = torch.stack([torch.stack([corners, tops], -1), torch.stack([sides, middles], -1)], 2)
    return pairs.reshape(len(corners), 2 * corners.shape[1], 2 * corners.shape[2])
