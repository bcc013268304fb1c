"""Projections of changes onto balls, per example."""

from __future__ import annotations

import torch
from torch import Tensor

from robench.attacks.rows import spread
from robench.devices import is_asynchronous

NUM_CORRECTIONS = 6
MOST_ITERATIONS = 100
# Iterations between two looks at whether all rows have converged, on devices that a look waits for.
LOOKED_EVERY = 4
# Fractions of the budget: a sum this close below it counts as equal, and an iteration aims halfway there, so that the
# rounding of sums does not decide when it ends.
TOLERANCE = 1e-9
# Maximum error of a length measured in float32, as a fraction of the budget.
CERTAINTY = 1e-4


def onto_l2_ball(change: Tensor, epsilon: float) -> Tensor:
    """Return the nearest changes (B, ...) of Euclidean length <= epsilon."""
    if not epsilon:
        return 0 * change
    lengths = change.flatten(1).norm(dim=1)
    return change * spread(epsilon / lengths.clamp(min=epsilon), change)


def onto_l1_ball(change: Tensor, epsilon: float, lower: Tensor, upper: Tensor) -> Tensor:
    """Return the nearest changes (B, ...) with sum of absolute values <= epsilon and lower <= change <= upper.

    Zero must lie between the bounds. The nearest point is sign(c) max(|c| - t, 0) cut to the bounds, with the smallest
    t >= 0 for which it is within the budget (the conditions of Karush, Kuhn and Tucker).
    """
    rows, below, above = (tensor.flatten(1) for tensor in (change, lower, upper))
    cut = torch.clamp(rows, below, above)
    is_outside = cut.abs().sum(1, dtype=torch.float64) > epsilon
    if is_asynchronous(change):
        return torch.where(is_outside[:, None], _shrunk(rows, below, above, epsilon, is_outside), cut).view_as(change)
    outside = is_outside.nonzero()[:, 0]
    if len(outside):
        cut[outside] = _shrunk(rows[outside], below[outside], above[outside], epsilon, is_outside[outside])
    return cut.view_as(change)


def _shrunk(rows: Tensor, below: Tensor, above: Tensor, epsilon: float, is_outside: Tensor) -> Tensor:
    """Return changes (B, D) shrunk onto the budget, where they are outside; elsewhere anything."""
    rows, dtype = rows.double(), rows.dtype
    sizes, rooms = rows.abs(), torch.where(rows > 0, above, -below).double()
    shrunk = torch.minimum((sizes - _thresholds(sizes, rooms, epsilon, is_outside)).clamp(min=0), rooms)
    return torch.copysign(shrunk, rows).to(dtype)


def _thresholds(sizes: Tensor, rooms: Tensor, epsilon: float, is_outside: Tensor) -> Tensor:
    """Return the smallest t >= 0 (B, 1) for which the sum of min(max(size - t, 0), room) is within the budget.

    The sum falls with t along straight pieces, so that Newton's method ends after few steps; where it would leave the
    interval in which t is known to lie, as it can where rooms make the sum bend upwards, the interval is halved. A
    converged row stays, so that its result does not depend on the others, nor on the number of further iterations: a
    device is waited for once in ``LOOKED_EVERY``. Rows that are not outside (B,) are never waited for.
    """
    low, high = torch.zeros_like(sizes[:, :1]), sizes.amax(1, keepdim=True)
    thresholds, looked_every = low, LOOKED_EVERY if is_asynchronous(sizes) else 1
    for iteration in range(1, MOST_ITERATIONS + 1):
        rest = (sizes - thresholds).clamp_(min=0)
        inside = torch.minimum(rest, rooms)
        totals = inside.sum(1, keepdim=True)
        fits = totals <= epsilon
        low, high = torch.where(fits, low, thresholds), torch.where(fits, thresholds, high)
        arrived = fits & (totals >= epsilon * (1 - TOLERANCE))
        if iteration % looked_every == 0 and bool((arrived | ~is_outside[:, None]).all()):
            break
        slopes = ((inside > 0) & (rest < rooms)).sum(1, keepdim=True)
        aimed = thresholds + (totals - epsilon * (1 - TOLERANCE / 2)) / slopes
        aimed = torch.where((aimed > low) & (aimed < high), aimed, (low + high) / 2)
        thresholds = torch.where(arrived, thresholds, aimed)
    return high


def shortened(points: Tensor, clean: Tensor, epsilon: float, order: int) -> Tensor:
    """Return points (B, ...) whose exact distance from the clean inputs in the norm of ``order`` is at most epsilon.

    Rounding to float32 can lengthen a change by a few units in the last place; it is then scaled down, by a little
    more each time, until it fits. Rows that are shorter by more than any rounding are left alone, on a CPU unmeasured.
    """
    if is_asynchronous(points):
        return _shortened(points, clean.double(), epsilon, order)
    lengths = (points - clean).flatten(1).norm(p=order, dim=1)
    doubtful = (lengths > epsilon * (1 - CERTAINTY)).nonzero()[:, 0]
    if not len(doubtful):
        return points
    if len(doubtful) == len(points):
        return _shortened(points, clean.double(), epsilon, order)
    points = points.clone()
    points[doubtful] = _shortened(points[doubtful], clean[doubtful].double(), epsilon, order)
    return points


def _shortened(points: Tensor, clean: Tensor, epsilon: float, order: int) -> Tensor:
    is_long: Tensor
    for correction in range(NUM_CORRECTIONS):
        scale = _factors(points, clean, epsilon, order)
        is_long = scale < 1
        # Most often one correction is enough, and rows that fit stay; a device is waited for after it.
        if (correction or not is_asynchronous(points)) and not bool(is_long.any()):
            return points
        shorter = clean + (points.double() - clean) * scale * (1 - 1e-7 * 4**correction)
        points = torch.where(is_long, shorter.to(points.dtype), points)
    # Budgets of a few units in the last place: each coordinate is rounded towards the clean one.
    shorter = clean + (points.double() - clean) * _factors(points, clean, epsilon, order) * (1 - 1e-12)
    rounded = shorter.to(points.dtype)
    is_farther = (rounded.double() - clean).abs() > (shorter - clean).abs()
    rounded = torch.where(is_farther, torch.nextafter(rounded, clean.to(points.dtype)), rounded)
    return torch.where(is_long, rounded, points)


def _factors(points: Tensor, clean: Tensor, epsilon: float, order: int) -> Tensor:
    """Return the factors (B, 1...) that scale each change to the budget: less than 1 if it is too long."""
    lengths = (points.double() - clean).flatten(1).norm(p=order, dim=1).view(-1, *[1] * (points.ndim - 1))
    return torch.where(lengths > epsilon, epsilon / lengths, 1.0)
