"""Steepest-ascent directions, sparse directions and random starting points within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from robench.attacks.regions import Region
    from robench.core.protocols import Draws
    from robench.core.seeds import Stream

TINY = 1e-12


def steepest(gradient: Tensor, norm: str) -> Tensor:
    """Return directions (B, ...) of length 1 in which the loss rises fastest; zero where the gradient is.

    In l1 this is the coordinate of the largest gradient alone (the mean of ties).
    """
    if norm == "linf":
        return torch.sign(gradient)
    rows = gradient.flatten(1)
    if norm == "l2":
        scaled: Tensor = rows / rows.norm(dim=1, keepdim=True).clamp(min=TINY)
        return scaled.view_as(gradient)
    largest = rows.abs() == rows.abs().amax(dim=1, keepdim=True).clamp(min=TINY)
    direction: Tensor = rows.sign() * largest
    return (direction / largest.sum(dim=1, keepdim=True).clamp(min=1)).view_as(gradient)


def along_largest(gradient: Tensor, counts: Tensor, most: int | None = None) -> Tensor:
    """Return directions (B, ...) of l1 length 1, equal amounts along the ``counts`` (B,) largest gradients.

    Includes at least one coordinate, and ties with the last; zero where the gradient is. ``most`` is at least the
    largest of the counts, by default read from them, which waits for their device.
    """
    rows = gradient.flatten(1)
    sizes = rows.abs()
    counts = counts.long().clamp(1, rows.shape[1])
    most = int(counts.max()) if most is None else min(max(most, 1), rows.shape[1])
    least = sizes.topk(most, dim=1).values.gather(1, counts[:, None] - 1)
    signs = rows.sign() * (sizes >= least)
    return (signs / signs.abs().sum(dim=1, keepdim=True).clamp(min=1)).view_as(gradient)


def sparse_steepest(gradient: Tensor, share: float, room: Tensor) -> Tensor:
    """Return directions (B, ...) of l1 length 1 along the movable coordinates of largest gradient.

    ``share`` is the proportion of the coordinates, in (0, 1]; ``room`` (B, ...) masks those that can move along the
    gradient. All chosen coordinates move equally; unlike in ``along_largest``, there are never more than requested.
    Source: sparse l1 descent, Tramer & Boneh 2019, arXiv:1904.13000, section 4.
    """
    rows = (gradient * room).flatten(1)
    sizes = rows.abs()
    # In the gradient's float32, but on the CPU, since it is one number.
    exact = (torch.tensor(share, dtype=rows.dtype) * rows.shape[1]).ceil()
    count = min(max(int(exact), 1), rows.shape[1])
    least = sizes.topk(count, dim=1).values[:, -1:]
    larger, equal = sizes > least, sizes == least
    # Of ties with the last one, the first.
    chosen = larger | (equal & (equal.cumsum(dim=1) <= count - larger.sum(dim=1, keepdim=True)))
    direction = rows.sign() * chosen
    return (direction / direction.abs().sum(dim=1, keepdim=True).clamp(min=1)).view_as(gradient)


def random_start(region: Region, clean: Tensor, draws: Draws, stream: Stream) -> Tensor:
    """Return points (B, ...) drawn from the budget's ball, and then projected.

    Uniformly in l-infinity; in l2 uniformly too (a direction, and a radius by the root of the dimension); in l1 as the
    differences of sorted uniform numbers with random signs.
    """
    shape = clean.shape[1:]
    if region.norm == "linf":
        return region.project(clean + (2.0 * draws.uniform(stream, shape) - 1.0) * region.epsilon)
    size = clean[0].numel()
    if region.norm == "l2":
        drawn = draws.normal(stream, (size + 2,)).to(clean)
        # The first coordinates of a point of the sphere of two more dimensions are uniform in the ball.
        change = drawn[:, :size] / drawn.norm(dim=1, keepdim=True)
    else:
        drawn = draws.uniform(stream, (2 * size,)).to(clean)
        gaps = drawn[:, :size].sort(dim=1).values.diff(dim=1, prepend=torch.zeros_like(drawn[:, :1]))
        change = gaps * torch.where(drawn[:, size:] < 0.5, -1.0, 1.0)
    return region.project(clean + region.epsilon * change.view_as(clean))
