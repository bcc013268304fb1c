"""Defocus blur: every point becomes a disk.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``defocus_blur`` and ``disk`` of the published code: a disk of
whole pixels, smoothed at its rim by a Gaussian of 3 or 5 pixels, with OpenCV's border (a mirror at the last pixel).
Constants in pixels. Where it differs: weights have 15 bits (``filters``).
"""

from dataclasses import replace
from functools import lru_cache

import torch
from torch.nn.functional import pad

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import FLOAT32_BITS, ShiftedPlanes, gaussian_weights, mirrored_at_ends, rounded_weights
from robench.corruptions.levels import Strengths, strength

# Radius of the disk and standard deviation of its rim, in pixels.
DISK: Strengths[tuple[float, float]] = {
    "imagenet": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "cifar": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
}
# From how many weights on products of matrices are faster than additions of shifted planes, and columns of a product.
MANY_WEIGHTS = 200
BLOCK = 16


def defocus_blur(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), each spread over a disk."""
    kernel, bands = weights_of(*strength(DISK, declaration))
    height, width = levels.shape[-2:]
    planes = ShiftedPlanes.of(_mirrored_margin(levels, len(kernel) // 2), height, width)
    # Other devices may multiply matrices with fewer bits, as processors do where a program allows it.
    is_exact = levels.device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"
    if is_exact and int(kernel.count_nonzero()) >= MANY_WEIGHTS:
        return _multiplied(planes, bands).view_as(levels)
    return _added(planes, kernel.tolist()).view_as(levels)


def _mirrored_margin(levels: torch.Tensor, reach: int) -> torch.Tensor:
    """Return (B, 3, H + 2 reach, W + 2 reach): OpenCV's border."""
    height, width = levels.shape[-2:]
    if reach < min(height, width):
        return pad(levels, (reach,) * 4, mode="reflect")
    # Small images are mirrored several times.
    beyond = torch.arange(-reach, max(height, width) + reach, device=levels.device)
    tall = levels.index_select(-2, mirrored_at_ends(beyond[: height + 2 * reach], height))
    return tall.index_select(-1, mirrored_at_ends(beyond[: width + 2 * reach], width))


def _added(planes: ShiftedPlanes, kernel: list[list[float]]) -> torch.Tensor:
    reach, total = len(kernel) // 2, planes.zeros()
    for below, row in enumerate(kernel[reach:]):
        lines = replace(planes, lines=_rows_of_a_weight(planes, reach, below))
        for right, weight in enumerate(row):
            if weight:
                lines.add_to(total, 0, right, weight)
    return planes.windows(total).contiguous()


def _multiplied(planes: ShiftedPlanes, bands: torch.Tensor) -> torch.Tensor:
    """Return the sums of ``_added`` by products of matrices; they are exact in any order."""
    reach = len(bands) - 1
    total = planes.lines.new_zeros(len(planes.lines) * planes.height, planes.width)
    for below, band in enumerate(bands):
        lines = _rows_of_a_weight(planes, reach, below).reshape(len(total), planes.stride)
        for left in range(0, planes.width, BLOCK):
            size = min(BLOCK, planes.width - left)
            block = lines[:, left : left + size + 2 * reach]
            total[:, left : left + size].addmm_(block, band[: size + 2 * reach, :size])
    return total


def _rows_of_a_weight(planes: ShiftedPlanes, reach: int, below: int) -> torch.Tensor:
    # Rows at equal distance above and below share a weight, so that both are weighed at once.
    return planes.rows(reach) if below == 0 else planes.rows(reach + below) + planes.rows(reach - below)


@lru_cache(maxsize=16)
def weights_of(radius: float, rim: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rounded weights of a disk, (2 R + 1, 2 R + 1) without empty rims, and their bands.

    Bands are float32 matrices (R + 1, BLOCK + 2 R, BLOCK): one for each row from the middle one down, which weighs
    2 R + 1 neighbours in a line.
    """
    kernel = rounded_weights(disk(radius, rim), FLOAT32_BITS)
    centre = len(kernel) // 2
    reach = int((kernel.nonzero() - centre).abs().max())
    kernel = kernel[centre - reach : centre + reach + 1, centre - reach : centre + reach + 1]
    bands = torch.zeros(reach + 1, BLOCK + 2 * reach, BLOCK)
    for place in range(BLOCK):
        bands[:, place : place + len(kernel), place] = kernel[reach:]
    return kernel, bands


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
