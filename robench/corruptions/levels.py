"""Levels of 8 bits, to which most original corruptions truncate, and strengths by size of image and severity."""

from collections.abc import Mapping
from typing import TypeVar

import torch

from robench.corruptions.corruption import Corruption

Constant = TypeVar("Constant")
# By the field ``constants``, then from the weakest severity to the strongest.
Strengths = Mapping[str, tuple[Constant, Constant, Constant, Constant, Constant]]


def strength(strengths: Strengths[Constant], declaration: Corruption) -> Constant:
    """Return the constant of the declaration's size and severity."""
    return strengths[declaration.constants][declaration.severity - 1]


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


def grey_levels(colours: torch.Tensor) -> torch.Tensor:
    """Return whole levels (B, 3, H, W) as grey (B, 1, H, W), by the weights of ITU-R BT.601-2 in Pillow's integers.

    >>> grey_levels(torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255], [77, 77, 77.0]])[..., None, None]).flatten()
    tensor([ 76., 150.,  29.,  77.])
    """
    red, green, blue = colours.int().split(1, 1)
    grey: torch.Tensor = (red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16
    return grey.float()
