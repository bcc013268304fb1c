"""Windows of images, one per example, and the bumps that the Square attack puts into them in l2 and l1.

Source: Andriushchenko et al. 2020, arXiv:1912.00049, section 3.4 and equation 2; in l1 the code of AutoAttack, whose
hills fall with the fourth power of the ring's number and not with its square (Croce & Hein 2021, arXiv:2103.01208).
Axes: B batch, C channels, H rows, W columns, S side of a window.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING

import torch

from robench.devices import to_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

TINY = 1e-12
NUM_TILES = 5
ORDERS = {"l2": 2, "l1": 1}
# Power of a ring's number by which a hill decreases.
POWERS = {"l2": 2, "l1": 4}


def window_cells(drawn: Tensor, side: int, shape: Sequence[int], *, spares_last: bool = False) -> Tensor:
    """Return the cells (B, C * S * S) of one square for each image of ``shape`` (B, C, H, W), counted within an image.

    ``drawn`` (B, 2), numbers in [0, 1), determine the squares' places, which are equally likely. With ``spares_last``
    no square reaches the last row or column, unless it is as high or as wide as the image.
    """
    _, channels, height, width = shape
    first, places = _first_window(side, channels, height, width, drawn.device)
    if spares_last:
        places = (places - 1).clamp(min=1)
    top, left = torch.minimum((drawn * places).long(), places - 1).unbind(1)
    return (top * width + left)[:, None] + first


@lru_cache(maxsize=64)
def _first_window(side: int, channels: int, height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the cells (C * S * S,) of the top left square, and the number of rows and columns it could start at."""
    steps = torch.arange(side, device=device)
    planes = torch.arange(channels, device=device)[:, None, None] * (height * width)
    places = to_device(torch.tensor([height - side + 1, width - side + 1]), device)
    return (planes + steps[:, None] * width + steps).flatten(), places


def cut_out(images: Tensor, cells: Tensor) -> Tensor:
    """Return the windows (B, C, S, S) of images (B, C, H, W) at cells (B, C * S * S)."""
    windows = images.flatten(1).gather(1, cells)
    side = isqrt(cells.shape[1] // images.shape[1])
    return windows.view(len(images), images.shape[1], side, side)


def put_in(images: Tensor, cells: Tensor, windows: Tensor) -> Tensor:
    """Return images (B, C, H, W) with windows (B, C, S, S) at cells (B, C * S * S)."""
    return images.flatten(1).scatter(1, cells, windows.flatten(1)).view_as(images)


def bump(side: int, like: Tensor, drawn: Tensor, norm: str = "l2") -> Tensor:
    """Return bumps (B, 1, S, S) of length 1 in ``norm``: a hill above or beside its hollow, as drawn (B,)."""
    standing = _bump(side, norm, like.dtype, like.device)
    return torch.where(drawn.view(-1, 1, 1, 1) < 0.5, standing.T, standing)


@lru_cache(maxsize=64)
def _bump(side: int, norm: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    both = torch.cat([_hill(side // 2, side, norm), -_hill(side - side // 2, side, norm)])
    return to_device((both / both.norm(p=ORDERS[norm])).float().to(dtype), device)


def _hill(height: int, width: int, norm: str) -> Tensor:
    """Return (height, width) float64 values of length 1 that increase in rings towards the middle (equation 2)."""
    rows, columns = torch.arange(height) - height // 2, torch.arange(width) - width // 2
    rings = torch.maximum(rows.abs()[:, None], columns.abs()[None, :])
    steps = 1 / torch.arange(1, max(height, width) // 2 + 2, dtype=torch.float64) ** POWERS[norm]
    # A pixel of ring d lies in all squares around the middle from the d-th on.
    hill: Tensor = steps.flip(0).cumsum(0).flip(0)[rings]
    return hill / float(hill.norm(p=ORDERS[norm]).clamp(min=TINY))


def bump_grid(images: Tensor, draw: Callable[[Sequence[int]], Tensor], norm: str = "l2") -> Tensor:
    """Return changes in the shape of images (B, C, H, W): adjacent bumps, a fifth of the shorter side wide.

    ``draw`` returns numbers in [0, 1), (B, *shape): orientation of each bump, and its sign in each channel.
    """
    batch, channels, height, width = images.shape
    side = max(min(height, width) // NUM_TILES, 1)
    down, across = height // side, width // side
    top, left = (height - down * side) // 2, (width - across * side) // 2
    drawn = draw((down, across, 1 + channels))
    bumps = bump(side, images, drawn[..., 0].flatten(), norm).view(batch, 1, down, across, side, side)
    signs = torch.where(drawn[..., 1:] < 0.5, -1.0, 1.0).permute(0, 3, 1, 2)[..., None, None]
    tiles = (signs * bumps).transpose(3, 4).reshape(batch, channels, down * side, across * side)
    grid = torch.zeros_like(images)
    grid[:, :, top : top + down * side, left : left + across * side] = tiles
    return grid
