"""Truncation to 8-bit levels, the last step of most original corruptions."""

from __future__ import annotations

import torch

NEAR_A_LEVEL = 2.0**-10
LEVELS_OF_16_BITS = 257.0


def truncated(values: torch.Tensor) -> torch.Tensor:
    """Return ``values`` rounded down to whole levels; a value within 2**-10 below a level counts as that level.

    Sums with rounded weights may fall short of a level that the original's double precision reaches.
    """
    return (values + NEAR_A_LEVEL).floor_()


def truncated_by_imagemagick(values: torch.Tensor) -> torch.Tensor:
    """Return ``values`` in [0, 255] as ImageMagick 6.9 saves them in 8 bits: rounded to 16 bits, then truncated."""
    return (values * LEVELS_OF_16_BITS).round_().div_(LEVELS_OF_16_BITS).floor_()
