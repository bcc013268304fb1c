"""Defocus blur: every point becomes a disk.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``defocus_blur`` and ``disk`` of the published code: a disk of
whole pixels, smoothed at its rim by a Gaussian of 3 or 5 pixels, with OpenCV's border (a mirror at the last pixel).
Constants in pixels. Where it differs: weights have 15 bits (``weights``).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from robench.corruptions.severities import Strengths, strength
from robench.corruptions.shifted_planes import ShiftedPlanes
from robench.corruptions.weights import (
    FLOAT32_BITS,
    gaussian_weights,
    mirrored_at_ends,
    rounded_weights,
)

if TYPE_CHECKING:
    from robench.core.protocols import Draws
    from robench.corruptions.corruption import Corruption

# Radius of the disk and standard deviation of its rim, in pixels.
DISK: Strengths[tuple[float, float]] = {
    "imagenet": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "cifar": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
}


def defocus_blur(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), each spread over a disk."""
    kernel = disk(*strength(DISK, declaration))
    height, width = levels.shape[-2:]
    reach = len(kernel) // 2
    beyond = torch.arange(-reach, max(height, width) + reach, device=levels.device)
    tall = levels.index_select(-2, mirrored_at_ends(beyond[: height + 2 * reach], height))
    padded = tall.index_select(-1, mirrored_at_ends(beyond[: width + 2 * reach], width))
    return _convolved(padded, rounded_weights(kernel, FLOAT32_BITS).tolist(), height, width)


def _convolved(padded: torch.Tensor, kernel: list[list[float]], height: int, width: int) -> torch.Tensor:
    reach = len(kernel) // 2
    planes = ShiftedPlanes.of(padded, height, width)
    total = planes.zeros()
    for below in range(reach + 1):
        # Rows at equal distance above and below share a weight, so that both are weighed at once.
        pair = planes.rows(reach) if below == 0 else planes.rows(reach + below) + planes.rows(reach - below)
        lines = replace(planes, lines=pair)
        for right, weight in enumerate(kernel[reach + below]):
            if weight:
                lines.add_to(total, 0, right, weight)
    return planes.windows(total).view(*padded.shape[:-2], height, width)


@lru_cache(maxsize=16)
def disk(radius: float, rim: float) -> torch.Tensor:
    """Return (N, N) float64, N odd: a disk that sums to about one, smoothed by a Gaussian of deviation ``rim``."""
    reach, rim_reach = (8, 1) if radius <= 8 else (int(radius), 2)
    squares = torch.arange(-reach, reach + 1, dtype=torch.float64).square()
    hard = (squares[:, None] + squares <= radius**2).double()
    hard = hard / hard.sum()
    places = torch.arange(-rim_reach, 2 * reach + 1 + rim_reach)
    lines = hard[mirrored_at_ends(places, 2 * reach + 1)].unfold(0, 2 * rim_reach + 1, 1)
    across = (lines @ gaussian_weights(rim, rim_reach)).mT
    soft = across[mirrored_at_ends(places, 2 * reach + 1)].unfold(0, 2 * rim_reach + 1, 1)
    return (soft @ gaussian_weights(rim, rim_reach)).mT.contiguous()
