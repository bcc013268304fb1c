"""Shortest changes from points of a box to hyperplanes, in three norms, vectorised over rows.

Source: Croce & Hein 2020, arXiv:1907.02044, equation 4: min |d|_p so that <w, x + d> = b and x + d lies in the box.
Every coordinate moves along the sign of w, by at most the room r_i >= 0 that the box leaves. With g = b - <w, x> >= 0:
    l-infinity  all by the same t:           sum |w_i| min(r_i, t) = g
    l2          in proportion to |w_i|:      sum |w_i| min(r_i, t |w_i|) = g
    l1          one after the other, those of the largest |w_i| first, each to its full room
The left sides of the first two are concave and piecewise linear in t, so that Newton's method from t = 0 never
overshoots and ends at the exact t after as many steps as there are changes of slope on its way (a handful, where the
authors' code sorts all coordinates). Where the box does not reach the hyperplane, the corner nearest to it is taken.
The gap g is given and not computed as <w, x> - b, which would round the small difference of two large numbers.
Bounds may be infinite.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import torch

from robench.devices import is_asynchronous

if TYPE_CHECKING:
    from torch import Tensor

# Iterations between two looks at whether the box has been filled, on devices that a look waits for.
LOOKED_EVERY = 4


def onto_hyperplane(gap: Tensor, normal: Tensor, below: Tensor, above: Tensor, norm: str) -> Tensor:
    """Return the shortest changes d (B, ...) with <normal, d> = gap and below <= d <= above, or the nearest possible.

    ``gap`` is (B,); ``normal``, ``below`` <= 0 and ``above`` >= 0 are (B, ...). Where the normal is zero nothing moves.
    """
    rows = normal.flatten(1)
    # A negative gap equals a positive one along the opposite normal.
    signs = rows.sign() * torch.where(gap < 0, -1.0, 1.0)[:, None]
    room = torch.where(signs > 0, above.flatten(1), -below.flatten(1)).masked_fill(signs == 0, 0)
    # The same hyperplane with largest weight 1, whose squares and quotients stay numbers however flat the victim is.
    limits = torch.finfo(rows.dtype)
    scale = rows.abs().amax(1).clamp(min=limits.tiny)
    weights, distance = rows.abs() / scale[:, None], (gap.abs() / scale).clamp(max=limits.max)
    lengths = _in_order(distance, weights, room) if norm == "l1" else _together(distance, weights, room, norm)
    return (signs * lengths).view_as(normal)


def _together(gap: Tensor, weights: Tensor, room: Tensor, norm: str) -> Tensor:
    """Return the lengths (B, D) that coordinates move: t, or in l2 t times their weight, each within its room."""
    rates = weights if norm == "l2" else torch.ones_like(weights)
    gains, costs, full = weights * rates, weights * room, room <= 0
    looked_every = LOOKED_EVERY if is_asynchronous(gap) else 1
    for iteration in count(1):
        slopes = gains.masked_fill(full, 0).sum(1)
        spent = costs.masked_fill(~full, 0).sum(1)
        # Where no coordinate is left the box ends before the hyperplane, and all stay full.
        times = ((gap - spent).clamp(min=0) / slopes.clamp(min=torch.finfo(slopes.dtype).tiny))[:, None]
        reached = rates * times
        newly = ~full & (reached >= room)
        if iteration % looked_every == 0 and not bool(newly.any()):
            break
        # Once nothing is new, further iterations change nothing.
        full = full | newly
    return torch.where(full, room, reached)


def _in_order(gap: Tensor, weights: Tensor, room: Tensor) -> Tensor:
    """Return the lengths (B, D) that coordinates move: fully in order of weight, the last as far as needed."""
    order = weights.argsort(dim=1, descending=True, stable=True)
    gains = (weights * room).gather(1, order)
    before = torch.cat([torch.zeros_like(gains[:, :1]), gains[:, :-1].cumsum(1)], dim=1)
    taken = torch.minimum((gap[:, None] - before).clamp(min=0), gains)
    lengths = torch.where(gains > 0, taken / weights.gather(1, order), torch.zeros_like(taken))
    return torch.minimum(torch.zeros_like(lengths).scatter(1, order, lengths), room)
