"""Spatter: drops of water on the lens (severities 1 to 3), or of mud (4 and 5).

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``spatter`` of the published code: peaks of smoothed noise are
liquid; water is shaded by its distance from edges that Canny finds, mud covers. OpenCV's steps are kept, with its
border (a mirror at the last pixel). Constants in pixels. Where it differs: an image without any drop of water stays as
it is, where the original divides by zero; smoothing has weights of 18 bits, its noise 14 (``filters``).

Edges: Canny 1986 (doi:10.1109/TPAMI.1986.4767851), as OpenCV's ``Canny`` with a Sobel filter of 3 pixels and the sum of
absolute derivatives, whose whole numbers and ties are kept. Where it differs: weak edges grow from strong ones by whole
rings, not by a stack; the result is the same.

Distances: Borgefors 1986 (doi:10.1016/S0734-189X(86)80047-0); OpenCV's ``distanceTransform`` with a mask of 5 pixels:
straight moves of 1, diagonal ones of 1.4, knight's moves of 2.1969. Where it differs: distances stop at a limit, and
instead of two passes over the pixels there are steps of 16, 8, 4, 2 and 1 moves at once. A shortest way has moves of at
most two kinds, each kind in one direction, so that the binary digits of their numbers make it up: the result is the
same.
"""

from typing import NamedTuple

import torch
from torch.nn.functional import pad

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import gaussian_filtered, mirrored_at_ends, rounded_field
from robench.corruptions.levels import Strengths, strength


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
        opacity = torch.where(covered < THINNEST_MUD, 0.0, covered).float()[:, None]
        return levels * (1.0 - opacity) + colour * opacity
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


# OpenCV's tangent of 22.5 degrees, in units of 2**-15.
TANGENT_BITS = 15
TANGENT = 13573


def canny(levels: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Return a mask (B, H, W) of the edges in whole levels (B, H, W): above ``high``, or above ``low`` beside one."""
    right, down = _sobel(levels)
    size = right.abs() + down.abs()
    is_weak = _is_crest(size, right, down) & (size > low)
    edges = is_weak & (size > high)
    while bool((is_weak & ~edges).any()):
        grown = _ringed(edges) & is_weak
        if torch.equal(grown, edges):
            break
        edges = grown
    return edges


def _ringed(edges: torch.Tensor) -> torch.Tensor:
    """Return a mask (B, H, W) of edges and their eight neighbours."""
    around = pad(edges, (1, 1, 1, 1))
    lines = around[:, :, :-2] | around[:, :, 1:-1] | around[:, :, 2:]
    return lines[:, :-2] | lines[:, 1:-1] | lines[:, 2:]


def _sobel(levels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    padded = pad(levels[:, None].float(), (1, 1, 1, 1), mode="replicate")[:, 0].int()
    across = padded[:, :, 2:] - padded[:, :, :-2]
    along = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    return across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:], along[:, 2:] - along[:, :-2]


def _is_crest(size: torch.Tensor, right: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Return whether no neighbour along the derivative is larger; among equals, the later one counts."""
    height, width = size.shape[-2:]
    around = pad(size, (1, 1, 1, 1))

    def beside(rows: int, columns: int) -> torch.Tensor:
        return around[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    flat = right.abs() * TANGENT
    rise = down.abs() << TANGENT_BITS
    steep = flat + (right.abs() << (TANGENT_BITS + 1))
    horizontal = (size > beside(0, -1)) & (size >= beside(0, 1))
    vertical = (size > beside(-1, 0)) & (size >= beside(1, 0))
    falling = (size > beside(-1, -1)) & (size > beside(1, 1))
    rising = (size > beside(-1, 1)) & (size > beside(1, -1))
    diagonal = torch.where((right ^ down) < 0, rising, falling)
    return torch.where(rise < flat, horizontal, torch.where(rise > steep, vertical, diagonal))


# Distances are whole numbers of 2**-16 pixels.
UNIT = 1 << 16
MOVES = {
    UNIT: ((0, 1), (0, -1), (1, 0), (-1, 0)),
    round(1.4 * UNIT): ((1, 1), (1, -1), (-1, 1), (-1, -1)),
    round(2.1969 * UNIT): ((1, 2), (1, -2), (-1, 2), (-1, -2), (2, 1), (2, -1), (-2, 1), (-2, -1)),
}


def chamfer_distances(is_edge: torch.Tensor, limit: int) -> torch.Tensor:
    """Return int32 distances (B, H, W) in units of 2**-16 pixels, at most ``limit`` pixels, to edges (B, H, W)."""
    distances = torch.where(is_edge, 0, limit * UNIT).int()
    height, width = is_edge.shape[-2:]
    most = 1 << (limit.bit_length() - 1)
    while most:
        for cost, moves in MOVES.items():
            if most * cost >= limit * UNIT:
                continue
            around = pad(distances, (2 * most,) * 4, value=limit * UNIT) + most * cost
            for down, right in moves:
                top, left = most * (2 + down), most * (2 + right)
                torch.minimum(distances, around[:, top : top + height, left : left + width], out=distances)
        most //= 2
    return distances
