"""Spatter: drops of water on the lens (severities 1 to 3), or of mud (4 and 5).

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``spatter`` of the published code: what stands out of smoothed
noise is liquid; water is shaded by its distance from edges that Canny finds, mud covers. OpenCV's steps on whole levels
are kept, with its border (a mirror at the last pixel). Constants in pixels. Where it differs: an image without any drop
of water stays as it is, where the original divides by zero; smoothing has weights of 18 bits, its noise 14
(``weights``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from robench.core.seeds import Stream
from robench.corruptions.canny import canny
from robench.corruptions.chamfer import UNIT, chamfer_distances
from robench.corruptions.line_filters import gaussian_filtered
from robench.corruptions.severities import Strengths, strength
from robench.corruptions.weights import mirrored_at_ends, rounded_field

if TYPE_CHECKING:
    from robench.core.protocols import Draws
    from robench.corruptions.corruption import Corruption


class Liquid(NamedTuple):
    """Parameters of spatter: noise mean, deviation, smoothness, threshold, strength (mud: smoothness), liquid."""

    mean: float
    deviation: float
    sigma: float
    threshold: float
    strength: float
    is_mud: bool


SPATTER: Strengths[Liquid] = {
    "imagenet": (
        Liquid(0.65, 0.3, 4.0, 0.69, 0.6, False),
        Liquid(0.65, 0.3, 3.0, 0.68, 0.6, False),
        Liquid(0.65, 0.3, 2.0, 0.68, 0.5, False),
        Liquid(0.65, 0.3, 1.0, 0.65, 1.5, True),
        Liquid(0.67, 0.4, 1.0, 0.65, 1.5, True),
    ),
    "cifar": (
        Liquid(0.62, 0.1, 0.7, 0.7, 0.5, False),
        Liquid(0.65, 0.1, 0.8, 0.7, 0.5, False),
        Liquid(0.65, 0.3, 1.0, 0.69, 0.5, False),
        Liquid(0.65, 0.1, 0.7, 0.69, 0.6, True),
        Liquid(0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
}
WATER = (175.0, 238.0, 238.0)
MUD = (63.0, 42.0, 20.0)
THINNEST_MUD = 0.8
FARTHEST = 20
# Light from one corner: rows of a 3 x 3 filter.
RELIEF = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))


def spatter(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) with per-image drops."""
    liquid = strength(SPATTER, declaration)
    noise = draws.normal(Stream(purpose="spatter"), levels.shape[-2:]).to(levels.device)
    layer = gaussian_filtered(rounded_field(liquid.mean + noise * liquid.deviation), liquid.sigma)
    layer = torch.where(layer < liquid.threshold, 0.0, layer)
    colour = torch.tensor(MUD if liquid.is_mud else WATER, device=levels.device).view(1, 3, 1, 1)
    if liquid.is_mud:
        covered = gaussian_filtered((layer > liquid.threshold).double(), liquid.strength)
        share = torch.where(covered < THINNEST_MUD, 0.0, covered).float()[:, None]
        return levels * (1.0 - share) + colour * share
    return levels + colour * (shaded((layer * 255.0).floor().int()) * liquid.strength)[:, None]


def shaded(liquid: torch.Tensor) -> torch.Tensor:
    """Return (B, H, W) float32 fractions of water's colour, the largest 1, from whole levels (B, H, W), int32."""
    distances = chamfer_distances(canny(liquid, 50, 150), FARTHEST)
    depths = equalized(_sum_of_nine(distances) // (9 * UNIT))
    relief = _correlated(depths, RELIEF).clamp(0, 255)
    softened = (_sum_of_nine(relief) + 4) // 9
    water = (liquid * softened).float()
    return water / water.amax((1, 2), keepdim=True).clamp(min=1.0)


def equalized(levels: torch.Tensor) -> torch.Tensor:
    """Return int32 levels (B, H, W) spread evenly over 0 to 255, as in OpenCV's ``equalizeHist``."""
    flat = levels.flatten(1).long()
    counts = torch.zeros(len(flat), 256, dtype=torch.int64, device=levels.device)
    counts.scatter_add_(1, flat, torch.ones_like(flat))
    sums = counts.cumsum(1)
    lowest = (counts > 0).int().argmax(1, keepdim=True)
    below = sums.gather(1, lowest)
    rest = flat.shape[1] - below
    # A number over a tensor would be the number times a rounded reciprocal, which decides ties otherwise.
    scale = torch.full_like(rest, 255).float() / rest.clamp(min=1).float()
    spread = ((sums - below).float() * scale).round().long()
    # A flat image is unchanged.
    spread = torch.where(rest > 0, spread, lowest)
    return spread.gather(1, flat).view_as(levels).int()


def _sum_of_nine(planes: torch.Tensor) -> torch.Tensor:
    padded = _mirrored_border(planes)
    lines = padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]
    return lines[..., :-2, :] + lines[..., 1:-1, :] + lines[..., 2:, :]


def _correlated(planes: torch.Tensor, kernel: tuple[tuple[int, ...], ...]) -> torch.Tensor:
    height, width = planes.shape[-2:]
    padded = _mirrored_border(planes)
    total = torch.zeros_like(planes)
    for down, line in enumerate(kernel):
        for right, weight in enumerate(line):
            if weight:
                total.add_(padded[..., down : down + height, right : right + width], alpha=weight)
    return total


def _mirrored_border(planes: torch.Tensor) -> torch.Tensor:
    rows, columns = (
        mirrored_at_ends(torch.arange(-1, size + 1, device=planes.device), size) for size in planes.shape[-2:]
    )
    return planes.index_select(-2, rows).index_select(-1, columns)
