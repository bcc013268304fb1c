"""Pixelate: reduction and enlargement of the image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``pixelate`` of the published code, which is Pillow's resizing
with a box filter, both ways. Constants are fractions of the image's sides. Pillow's fixed-point arithmetic is kept
exactly: weights of 22 bits, rounded to levels after each row and then after each column. Since the pixels under a box
weigh the same, their levels are added first, as whole numbers that float32 holds. Where it differs: images more than
twice as tall as wide, whose columns Pillow takes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import LineFilter
from robench.corruptions.levels import Strengths, strength

# Fraction of the side in between.
SCALE: Strengths[float] = {"imagenet": (0.6, 0.5, 0.4, 0.3, 0.25), "cifar": (0.95, 0.9, 0.85, 0.75, 0.65)}
PILLOW_BITS = 22


def pixelate(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), whole, made of larger pixels."""
    scale = strength(SCALE, declaration)
    height, width = levels.shape[-2:]
    small = box_resized(levels, max(1, int(height * scale)), max(1, int(width * scale)))
    return box_resized(small, height, width)


def box_resized(levels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return whole float32 levels (..., height, width) of whole levels by Pillow's box filter."""
    across = box_filter(levels.shape[-1], width).along_rows(levels)
    return box_filter(levels.shape[-2], height).along_columns(across)


@dataclass(frozen=True, slots=True)
class BoxFilter:
    """Box filter along one axis, from N pixels to N' boxes.

    Attributes:
        sums: filter that adds the pixels under each box.
        firsts: first pixel under each box, (N',); counts: number of pixels under it.
        weights: weight of each of them, a multiple of 2**-22, (N',); float32 where that rounds every sum of levels as
            float64 does.
    """

    sums: LineFilter
    firsts: torch.Tensor
    counts: torch.Tensor
    weights: torch.Tensor

    def along_rows(self, levels: torch.Tensor) -> torch.Tensor:
        """Return whole float32 levels (..., H, N') of whole levels (..., H, N)."""
        if self._is_copy:
            return levels.index_select(-1, self.firsts.to(levels.device))
        return self._means(self.sums.along_rows(levels), self.weights)

    def along_columns(self, levels: torch.Tensor) -> torch.Tensor:
        """Return whole float32 levels (..., N', W) of whole levels (..., N, W)."""
        firsts = self.firsts.to(levels.device)
        sums = levels.index_select(-2, firsts)
        for place in range(1, int(self.counts.max())):
            others = levels.index_select(-2, (firsts + place).clamp(max=levels.shape[-2] - 1))
            # Rows are gathered faster than multiplied with a matrix; of smaller boxes nothing is added.
            is_under = self.counts > place
            sums += others if is_under.all() else others.mul_(is_under.unsqueeze(-1).to(levels))
        return sums if self._is_copy else self._means(sums, self.weights.unsqueeze(-1))

    @property
    def _is_copy(self) -> bool:
        return bool((self.counts == 1).all())

    def _means(self, sums: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return sums.to(weights.dtype).mul_(weights.to(sums.device)).add_(0.5).floor_().float()


@lru_cache(maxsize=64)
def box_filter(size: int, resized: int) -> BoxFilter:
    """Return Pillow's box filter from ``size`` places to ``resized``, whose weights are multiples of 2**-22."""
    scale = size / resized
    width = max(1.0, scale)
    centers = (torch.arange(resized, dtype=torch.float64)[:, None] + 0.5) * scale
    places = torch.arange(size, dtype=torch.float64)
    # Half-open on the left, whole pixels, none of them in part; rounded as Pillow rounds, which decides ties.
    offsets = ((places - centers) + 0.5) * (1.0 / width)
    first, last = (((centers + side * 0.5 * width) + 0.5).floor() for side in (-1, 1))
    is_inside = (offsets > -0.5) & (offsets <= 0.5) & (places >= first) & (places < last)
    counts = is_inside.sum(1)
    weights = (2.0**PILLOW_BITS / counts.double() + 0.5).floor() / 2.0**PILLOW_BITS
    is_decided = all(_float32_decides(count) for count in set(counts.tolist()))
    return BoxFilter(
        sums=LineFilter.of(is_inside.float()),
        firsts=is_inside.int().argmax(1),
        counts=counts,
        weights=weights.float() if is_decided else weights,
    )


def _float32_decides(count: int) -> bool:
    """Return whether float32 rounds every mean of ``count`` levels to the level that float64 rounds it to."""
    sums = torch.arange(255 * count + 1, dtype=torch.float64)
    weight = torch.tensor(2.0**PILLOW_BITS / count + 0.5, dtype=torch.float64).floor() / 2.0**PILLOW_BITS
    return torch.equal((sums * weight + 0.5).floor(), (sums.float() * weight.float() + 0.5).floor().double())
