"""Distances to the nearest edge, in moves on the grid, as in OpenCV.

Source: Borgefors 1986 (doi:10.1016/S0734-189X(86)80047-0); OpenCV's ``distanceTransform`` with a mask of 5 pixels:
straight moves of 1, diagonal ones of 1.4, knight's moves of 2.1969. Where it differs: distances stop at a limit, and
instead of two passes over the pixels there are steps of 16, 8, 4, 2 and 1 moves at once. A shortest way has moves of at
most two kinds, each kind in one direction, so that the binary digits of their numbers make it up: the result is the
same.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad

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
