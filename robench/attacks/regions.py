"""Search regions of attacks: a ball around each clean input, intersected with the domain's limits.

Libraries clip x' - x and add it to x again, which in float32 leaves the ball by a rounding error. Here l-infinity
bounds are rounded toward the clean input once, and other norms are measured again in float64 after rounding, so that no
point ever exceeds the exact budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from robench.attacks.projections import onto_l1_ball, onto_l2_ball, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor


class Region(Protocol):
    """Set around each of B clean inputs."""

    @property
    def epsilon(self) -> float:
        """Return the budget."""

    @property
    def norm(self) -> str:
        """Return the norm of the budget."""

    @property
    def lower(self) -> Tensor:
        """Return the lower bound (B, ...) of each coordinate."""

    @property
    def upper(self) -> Tensor:
        """Return the upper bound (B, ...) of each coordinate."""

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points (B, ...) of the set (l2 with a box: first into the ball, then the box)."""

    def take(self, rows: Tensor) -> Region:
        """Return the sets of a subset of the inputs."""


@dataclass(frozen=True, slots=True)
class LinfRegion:
    """Box between two bounds: points with |x' - x| <= epsilon in every coordinate, intersected with the limits."""

    epsilon: float
    lower: Tensor
    upper: Tensor
    norm = "linf"

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points."""
        return torch.clamp(points, self.lower, self.upper)

    def take(self, rows: Tensor) -> LinfRegion:
        """Return the sets of a subset of the inputs."""
        return LinfRegion(self.epsilon, self.lower.index_select(0, rows), self.upper.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class RoundRegion:
    """Ball of points with |x' - x| <= epsilon in l2 or l1, intersected with the box."""

    norm: str
    clean: Tensor
    epsilon: float
    lower: Tensor
    upper: Tensor

    def project(self, points: Tensor) -> Tensor:
        """Return points of the set; clipping to the box, which contains the clean input, lengthens no change."""
        onto_ball, order = _BALLS[self.norm]
        cut = torch.clamp(self.clean + onto_ball(points - self.clean, self), self.lower, self.upper)
        return shortened(cut, self.clean, self.epsilon, order)

    def take(self, rows: Tensor) -> RoundRegion:
        """Return the sets of a subset of the inputs."""
        clean, lower, upper = (each.index_select(0, rows) for each in (self.clean, self.lower, self.upper))
        return RoundRegion(self.norm, clean, self.epsilon, lower, upper)


def region_of(norm: str, clean: Tensor, epsilon: float, lower: Tensor, upper: Tensor) -> Region:
    """Return the set around clean inputs (B, ...) within a budget and a box, whose bounds broadcast over the inputs."""
    lower, upper = lower.expand_as(clean), upper.expand_as(clean)
    return _linf(clean, epsilon, lower, upper) if norm == "linf" else RoundRegion(norm, clean, epsilon, lower, upper)


def _linf(clean: Tensor, epsilon: float, lower: Tensor, upper: Tensor) -> LinfRegion:
    # Few rows at a time, whose float64 copies stay in the processor's cache.
    below, above = (
        torch.cat(bounds) for bounds in zip(*(_bounds(rows, epsilon) for rows in clean.split(64)), strict=True)
    )
    # Both limits for both bounds: around a clean input outside the box, the whole ball is clipped to it.
    return LinfRegion(epsilon, torch.clamp(below, lower, upper), torch.clamp(above, lower, upper))


def _bounds(clean: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the extreme float32 values that are no farther from the clean ones than epsilon."""
    exact = clean.double()
    above, below = (exact + epsilon).float(), (exact - epsilon).float()
    above = torch.where(above.double() - exact > epsilon, torch.nextafter(above, clean), above)
    below = torch.where(exact - below.double() > epsilon, torch.nextafter(below, clean), below)
    return below, above


def _onto_l2_ball(change: Tensor, region: RoundRegion) -> Tensor:
    return onto_l2_ball(change, region.epsilon)


def _onto_l1_ball(change: Tensor, region: RoundRegion) -> Tensor:
    # The nearest change within the box too (Croce & Hein 2021, arXiv:2103.01208, section 2.2).
    return onto_l1_ball(change, region.epsilon, region.lower - region.clean, region.upper - region.clean)


# By norm: the projection of changes (B, ...) onto the ball, and the order of the norm.
_BALLS: Mapping[str, tuple[Callable[[Tensor, RoundRegion], Tensor], int]] = {
    "l2": (_onto_l2_ball, 2),
    "l1": (_onto_l1_ball, 1),
}
