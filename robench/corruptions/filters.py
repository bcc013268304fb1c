"""Exact linear filters of images: weights as short binary fractions, filters along one axis, and shifted planes.

A sum of 8-bit levels with weights that are multiples of 2**-15 and add to about one has 24 bits: float32 holds it, and
every partial sum of it. In float64 there is room for weights of 18 bits along both axes. Exact sums do not depend
on how a library splits it between threads, blocks or devices. The cost is an error of less than 2**-15 a weight, far
below a level. Line filters are matrices without their blocks of zeros; two of them, one along each axis, make exact
sums of whole levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import NamedTuple

import torch

FLOAT32_BITS = 15
FLOAT64_BITS = 18
# Fields of noise are rounded to this many bits behind the point before they are filtered.
FIELD_BITS = 14


def rounded_weights(weights: torch.Tensor, bits: int) -> torch.Tensor:
    """Round ``weights`` (..., N), float64, to multiples of 2**-bits with the nearest running sums along N."""
    unit = 2.0**bits
    sums = (weights.double().cumsum(-1) * unit).round() / unit
    return sums.diff(dim=-1, prepend=torch.zeros_like(sums[..., :1]))


def rounded_field(field: torch.Tensor) -> torch.Tensor:
    """Return float64 values of a noise field, at most 4 in size, that two line filters sum exactly."""
    unit = 2.0**FIELD_BITS
    return (field.double() * unit).round() / unit


def gaussian_weights(sigma: float, radius: int) -> torch.Tensor:
    """Return (2 * radius + 1,) float64 values of a Gaussian at whole distances, which sum to one."""
    values = torch.tensor([exp(-0.5 * (x / sigma) ** 2) for x in range(-radius, radius + 1)], dtype=torch.float64)
    return values / values.sum()


def mirrored(places: torch.Tensor, size: int) -> torch.Tensor:
    """Return the indices of whole ``places`` in a mirrored line (d c b a | a b c d | d c b a)."""
    return _folded(places, 2 * size, 2 * size - 1)


def mirrored_at_ends(places: torch.Tensor, size: int) -> torch.Tensor:
    """Return the indices of whole ``places`` in a line (d c b | a b c d | c b a): end values are not repeated."""
    return _folded(places, max(1, 2 * size - 2), 2 * size - 2)


def _folded(places: torch.Tensor, period: int, far_end: int) -> torch.Tensor:
    # Not as whole numbers, whose remainders take ten times as long.
    exact = places if places.is_floating_point() else places.double()
    within = exact - (exact / period).floor() * period
    return torch.minimum(within, far_end - within).long()


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
        """Return the filter of a matrix (N', N) without rows of zeros."""
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


@dataclass(frozen=True, slots=True)
class ShiftedPlanes:
    """Planes with a margin, from which windows (height, width) are added.

    Attributes:
        lines: (P, rows * stride), each a plane with its margin, row after row.
        stride: width with the margin; height, width: of a window.
    """

    lines: torch.Tensor
    stride: int
    height: int
    width: int

    @classmethod
    def of(cls, padded: torch.Tensor, height: int, width: int) -> ShiftedPlanes:
        """Return planes (..., rows, stride) for windows of that size."""
        return cls(padded.reshape(-1, padded.shape[-2] * padded.shape[-1]), padded.shape[-1], height, width)

    def zeros(self) -> torch.Tensor:
        """Return lines (P, N) to add windows to; rows have a stride, and values between them are undefined."""
        return self.lines.new_zeros(len(self.lines), self._length)

    def add_to(self, total: torch.Tensor, down: int, right: int, weight: float) -> None:
        """Add the windows at this offset from the margin's corner, times ``weight``."""
        start = down * self.stride + right
        total.add_(self.lines[:, start : start + self._length], alpha=weight)

    def rows(self, down: int) -> torch.Tensor:
        """Return lines (P, height * stride) of the windows' rows with their margins to the left and right."""
        return self.lines[:, down * self.stride : (down + self.height) * self.stride]

    def windows(self, total: torch.Tensor) -> torch.Tensor:
        """Return lines (P, N) as planes (P, height, width)."""
        return total.as_strided((len(total), self.height, self.width), (self._length, self.stride, 1))

    @property
    def _length(self) -> int:
        return (self.height - 1) * self.stride + self.width
