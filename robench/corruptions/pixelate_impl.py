"""Pixelate: reduction and enlargement of the image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``pixelate`` of the published code, which is Pillow's resizing
with a box filter, both ways. Constants are shares of the image's sides. Pillow's fixed-point arithmetic is kept
exactly: weights of 22 bits, rounded to levels after each row and then after each column. Where it differs: images more
than twice as tall as wide, of which Pillow takes the columns first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from robench.corruptions.line_filters import LineFilter
from robench.corruptions.severities import Strengths, strength

if TYPE_CHECKING:
    from robench.core.protocols import Draws
    from robench.corruptions.corruption import Corruption

# Fraction of the side in between.
SHARE: Strengths[float] = {"imagenet": (0.6, 0.5, 0.4, 0.3, 0.25), "cifar": (0.95, 0.9, 0.85, 0.75, 0.65)}
PILLOW_BITS = 22


def pixelate(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), whole, made of larger pixels."""
    share = strength(SHARE, declaration)
    height, width = levels.shape[-2:]
    small = box_resized(levels.double(), max(1, int(height * share)), max(1, int(width * share)))
    return box_resized(small, height, width).float()


def box_resized(levels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return whole float64 levels (..., height, width) by Pillow's box filter."""
    across = (box_filter(levels.shape[-1], width).along_rows(levels) + 0.5).floor()
    return (box_filter(levels.shape[-2], height).along_columns(across) + 0.5).floor()


@lru_cache(maxsize=64)
def box_filter(size: int, resized: int) -> LineFilter:
    """Return Pillow's box filter from ``size`` places to ``resized``, whose weights are multiples of 2**-22."""
    scale = size / resized
    width = max(1.0, scale)
    centers = (torch.arange(resized, dtype=torch.float64)[:, None] + 0.5) * scale
    places = torch.arange(size, dtype=torch.float64)
    # Half-open on the left, whole pixels, none of them in part; rounded as Pillow rounds, which decides ties.
    offsets = ((places - centers) + 0.5) * (1.0 / width)
    first, last = (((centers + side * 0.5 * width) + 0.5).floor() for side in (-1, 1))
    is_inside = (offsets > -0.5) & (offsets <= 0.5) & (places >= first) & (places < last)
    weights = is_inside.double() / is_inside.sum(1, keepdim=True)
    return LineFilter.of((weights * 2.0**PILLOW_BITS + 0.5).floor() / 2.0**PILLOW_BITS)
