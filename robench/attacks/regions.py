"""Search regions of attacks: balls around clean inputs within limits, projections onto them, and directions in them.

Libraries clip x' - x and add it to x again, which in float32 leaves the ball by a rounding error. Here l-infinity
bounds are rounded toward the clean input once, and other norms are measured again in float64 after rounding, so that no
point ever exceeds the exact budget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robench.attacks.rows import largest, spread
from robench.core.protocols import Draws
from robench.core.seeds import Stream
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


def onto_l1_balls(change: Tensor, radii: Tensor) -> Tensor:
    """Return the nearest changes (B, ...) with a sum of absolute values of at most ``radii`` (B,), without bounds.

    Source: Duchi et al. 2008, Efficient projections onto the l1-ball, figure 1; in float64.
    """
    rows = change.flatten(1).double()
    sizes = rows.abs().sort(dim=1, descending=True).values
    excess = sizes.cumsum(1) - radii.double()[:, None]
    counts = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    num_kept = (sizes * counts > excess).sum(1, keepdim=True).clamp(min=1)
    thresholds = (excess.gather(1, num_kept - 1) / num_kept).clamp(min=0)
    return torch.copysign((rows.abs() - thresholds).clamp(min=0), rows).to(change.dtype).view_as(change)


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
        num_moving = ((inside > 0) & (rest < rooms)).sum(1, keepdim=True)
        aimed = thresholds + (totals - epsilon * (1 - TOLERANCE / 2)) / num_moving
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


@dataclass(frozen=True, slots=True)
class Region:
    """Set around each of B clean inputs: a ball |x' - x| <= epsilon in the norm, intersected with a box.

    Attributes:
        norm: ``linf``, ``l2`` or ``l1``.
        clean: (B, ...) clean inputs; ``epsilon``: the budget.
        lower, upper: (B, ...) bounds of each coordinate; in linf those of ball and box together.
        free: (B, ...) whether a coordinate may move; padding and pixels outside a patch may not. None if all may.
        most: number of pixels, or coordinates, that may differ from the clean input; None for all. Only in linf.
        of_pixels: whether ``most`` counts pixels with all channels, of images (B, C, H, W).
    """

    norm: str
    clean: Tensor
    epsilon: float
    lower: Tensor
    upper: Tensor
    free: Tensor | None = None
    most: int | None = None
    of_pixels: bool = False

    @property
    def num_free(self) -> Tensor:
        """Return the number of coordinates (B,) of each input that may move, in its type."""
        if self.free is None:
            return self.clean.new_full((len(self.clean),), self.clean[0].numel())
        return self.free.flatten(1).sum(1).to(self.clean.dtype)

    def freed(self, change: Tensor) -> Tensor:
        """Return changes (B, ...) with zeros for the coordinates that may not move."""
        return change if self.free is None else change * self.free

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points (B, ...) of the set (l2 with a box: first into the ball, then the box).

        Clipping to the box, which contains the clean input, lengthens no change.
        """
        if self.norm == "linf":
            inside = torch.clamp(points, self.lower, self.upper)
            return inside if self.most is None else self.sparsest(inside)
        change = points - self.clean
        if self.norm == "l2":
            change = onto_l2_ball(change, self.epsilon)
        else:
            # The nearest change within the box too (Croce & Hein 2021, arXiv:2103.01208, section 2.2).
            change = onto_l1_ball(change, self.epsilon, self.lower - self.clean, self.upper - self.clean)
        cut = torch.clamp(self.clean + change, self.lower, self.upper)
        return shortened(cut, self.clean, self.epsilon, order=2 if self.norm == "l2" else 1)

    def sparsest(self, points: Tensor) -> Tensor:
        """Return the points (B, ...) with only their largest changes, of ``most`` pixels or coordinates.

        They are the nearest points in l2 with so few changes, whose squares are summed over the channels of a pixel.
        """
        squares = (points - self.clean).square()
        if self.of_pixels:
            squares = squares.sum(1, keepdim=True)
        return torch.where(largest(squares, self.most or 0), points, self.clean)

    def only(self, free: Tensor) -> Region:
        """Return the part of the set in which coordinates (B, ...) that are not free keep their clean value."""
        lower, upper = torch.where(free, self.lower, self.clean), torch.where(free, self.upper, self.clean)
        return replace(self, lower=lower, upper=upper, free=free if self.free is None else free & self.free)

    def take(self, rows: Tensor) -> Region:
        """Return the sets of a subset of the inputs."""
        clean, lower, upper = (each.index_select(0, rows) for each in (self.clean, self.lower, self.upper))
        free = None if self.free is None else self.free.index_select(0, rows)
        return replace(self, clean=clean, lower=lower, upper=upper, free=free)


def region_of(
    norm: str, clean: Tensor, epsilon: float, lower: Tensor, upper: Tensor, free: Tensor | None = None
) -> Region:
    """Return the set around clean inputs (B, ...) within a budget and a box, whose bounds broadcast over the inputs.

    Coordinates that are not ``free`` (B, ...) have their clean value as both bounds.
    """
    lower, upper = lower.expand_as(clean), upper.expand_as(clean)
    if norm == "linf":
        # Few rows at a time, whose float64 copies stay in the processor's cache.
        pieces = [_bounds(rows, epsilon) for rows in clean.split(64)]
        below, above = (torch.cat(bounds) for bounds in zip(*pieces, strict=True))
        # Both limits for both bounds: around a clean input outside the box, the whole ball is clipped to it.
        lower, upper = torch.clamp(below, lower, upper), torch.clamp(above, lower, upper)
    if free is not None:
        lower, upper = torch.where(free, lower, clean), torch.where(free, upper, clean)
    return Region(norm, clean, epsilon, lower, upper, free)


def _bounds(clean: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the extreme float32 values that are no farther from the clean ones than epsilon."""
    exact = clean.double()
    above, below = (exact + epsilon).float(), (exact - epsilon).float()
    above = torch.where(above.double() - exact > epsilon, torch.nextafter(above, clean), above)
    below = torch.where(exact - below.double() > epsilon, torch.nextafter(below, clean), below)
    return below, above


# The smallest normal number of float32, in place of lengths of 0.
TINY = torch.finfo(torch.float32).tiny


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


def sparse_steepest(gradient: Tensor, proportion: float, room: Tensor, free: Tensor | None = None) -> Tensor:
    """Return directions (B, ...) of l1 length 1 along the movable coordinates of largest gradient.

    ``proportion`` of the ``free`` coordinates move, in (0, 1]; ``room`` (B, ...) masks coordinates that can move
    along the gradient. All chosen coordinates move equally; unlike in ``along_largest``, never more than requested.
    Source: sparse l1 descent, Tramer & Boneh 2019, arXiv:1904.13000, section 4.
    """
    rows = (gradient * room).flatten(1)
    sizes = rows.abs()
    # In the gradient's float32, but on the CPU, since it is one number.
    exact = (torch.tensor(proportion, dtype=rows.dtype) * rows.shape[1]).ceil()
    most = min(max(int(exact), 1), rows.shape[1])
    count = torch.full_like(sizes[:, :1], most, dtype=torch.int64)
    if free is not None:
        count = (proportion * free.flatten(1).sum(1, keepdim=True)).ceil().long().clamp(1, most)
    least = sizes.topk(most, dim=1).values.gather(1, count - 1)
    larger, equal = sizes > least, sizes == least
    # Of ties with the last one, the first.
    chosen = larger | (equal & (equal.cumsum(dim=1) <= count - larger.sum(dim=1, keepdim=True)))
    direction = rows.sign() * chosen
    return (direction / direction.abs().sum(dim=1, keepdim=True).clamp(min=1)).view_as(gradient)


def random_start(region: Region, clean: Tensor, draws: Draws, stream: Stream) -> Tensor:
    """Return points (B, ...) drawn from the budget's ball over the free coordinates, and then projected.

    Uniformly in l-infinity; in l2 uniformly too (a direction, and a radius by the root of the dimension); in l1 as the
    differences of sorted uniform numbers with random signs.
    """
    shape = clean.shape[1:]
    if region.norm == "linf":
        return region.project(clean + (2.0 * draws.uniform(stream, shape) - 1.0) * region.epsilon)
    size = clean[0].numel()
    if region.norm == "l2":
        drawn = draws.normal(stream, (size + 2,)).to(clean)
        if region.free is not None:
            drawn[:, :size] *= region.free.flatten(1)
        # The first coordinates of a point of the sphere of two more dimensions are uniform in the ball.
        change = drawn[:, :size] / drawn.norm(dim=1, keepdim=True)
    else:
        drawn = draws.uniform(stream, (2 * size,)).to(clean)
        gaps = _gaps(drawn[:, :size], region.free)
        change = gaps * torch.where(drawn[:, size:] < 0.5, -1.0, 1.0)
    return region.project(clean + region.epsilon * change.view_as(clean))


def _gaps(drawn: Tensor, free: Tensor | None) -> Tensor:
    """Return the differences (B, D) of sorted numbers in [0, 1), from 0 on; of free coordinates alone, 0 elsewhere."""
    if free is None:
        return drawn.sort(dim=1).values.diff(dim=1, prepend=torch.zeros_like(drawn[:, :1]))
    is_free = free.flatten(1)
    # Numbers of the others come last, so that the first differences are those of the free ones, in their order.
    gaps = _gaps(drawn.masked_fill(~is_free, 1.0), None)
    places = (~is_free).byte().argsort(dim=1, stable=True)
    return torch.zeros_like(gaps).scatter(1, places, gaps) * is_free
