"""Linear filters along one axis of an image, as matrices without their blocks of zeros.

In float64, with weights of 18 bits (``weights``) two of them, one along each axis, make exact sums of whole levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch

from robench.corruptions.weights import FLOAT64_BITS, gaussian_weights, mirrored, rounded_weights

# Fastest of the sizes from 8 to 112 for images of 224 pixels.
BLOCK = 24


class Block(NamedTuple):
    """Weights (places, high - low) from inputs ``low`` to ``high`` to outputs from ``start``."""

    start: int
    low: int
    high: int
    weights: torch.Tensor


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Matrix (N', N) applied to lines, in blocks of rows."""

    length: int
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, matrix: torch.Tensor) -> LineFilter:
        """Return the filter of a matrix (N', N), each row of which has a weight other than zero."""
        blocks = []
        for start, rows in zip(range(0, len(matrix), BLOCK), matrix.split(BLOCK), strict=True):
            used = rows.any(0).nonzero().flatten()
            low, high = int(used[0]), int(used[-1]) + 1
            blocks.append(Block(start, low, high, rows[:, low:high].contiguous()))
        return cls(len(matrix), tuple(blocks))

    def along_rows(self, planes: torch.Tensor) -> torch.Tensor:
        """Return planes (..., H, N') of planes (..., H, N), of the dtype of the matrix."""
        result = planes.new_empty(*planes.shape[:-1], self.length)
        for start, low, high, weights in self.blocks:
            result[..., start : start + len(weights)] = planes[..., low:high] @ weights.to(planes.device).mT
        return result

    def along_columns(self, planes: torch.Tensor) -> torch.Tensor:
        """Return planes (..., N', W) of planes (..., N, W), of the dtype of the matrix."""
        result = planes.new_empty(*planes.shape[:-2], self.length, planes.shape[-1])
        for start, low, high, weights in self.blocks:
            result[..., start : start + len(weights), :] = weights.to(planes.device) @ planes[..., low:high, :]
        return result


@lru_cache(maxsize=64)
def gaussian_filter(size: int, sigma: float, truncate: float = 4.0, border: str = "nearest") -> LineFilter:
    """Return the Gaussian filter of lines of ``size``, as scipy's ``gaussian_filter1d`` defines it.

    ``truncate`` is the radius in standard deviations. ``border`` is the padding beyond the ends: the last value
    (``nearest``), or the line in a mirror behind its last value (``reflect``).
    """
    radius = int(truncate * sigma + 0.5)
    weights = rounded_weights(gaussian_weights(sigma, radius), FLOAT64_BITS)
    sources = torch.arange(size)[:, None] + torch.arange(-radius, radius + 1)
    sources = sources.clamp(0, size - 1) if border == "nearest" else mirrored(sources, size)
    matrix = torch.zeros(size, size, dtype=torch.float64).scatter_add_(1, sources, weights.expand(size, -1))
    return LineFilter.of(matrix)


def gaussian_filtered(
    planes: torch.Tensor, sigma: float, truncate: float = 4.0, border: str = "nearest"
) -> torch.Tensor:
    """Return float64 planes (..., H, W) filtered by a Gaussian along both axes."""
    height, width = planes.shape[-2:]
    across = gaussian_filter(width, sigma, truncate, border).along_rows(planes.double())
    return gaussian_filter(height, sigma, truncate, border).along_columns(across)
