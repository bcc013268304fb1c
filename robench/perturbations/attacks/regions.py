"""What an attack may search: a ball around each clean input, cut by the range of pixels.

Libraries clip x' - x and add it to x again, which in float32 leaves the ball by a rounding error. Here l-infinity
bounds are rounded toward the clean input once, and longer norms are measured again in float64 after rounding, so that
no point ever exceeds the exact budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from robench.perturbations.attacks.projections import onto_l1_ball, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor


class Region(Protocol):
    """A set around each of B clean inputs."""

    @property
    def epsilon(self) -> float:
        """The budget."""

    @property
    def norm(self) -> str:
        """In which it is a length."""

    @property
    def lower(self) -> Tensor:
        """(B, ...) the least value that each coordinate may have."""

    @property
    def upper(self) -> Tensor:
        """(B, ...) the greatest."""

    def project(self, points: Tensor) -> Tensor:
        """Return points (B, ...) of the set: the nearest ones (l2 with a box: first into the ball, then the box)."""

    def take(self, rows: Tensor) -> Region:
        """Return the sets of some of the inputs."""


@dataclass(frozen=True, slots=True)
class LinfRegion:
    """All points between two bounds: |x' - x| <= epsilon in every coordinate, and the box."""

    clean: Tensor
    epsilon: float
    lower: Tensor
    upper: Tensor
    norm = "linf"

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points."""
        return torch.clamp(points, self.lower, self.upper)

    def take(self, rows: Tensor) -> LinfRegion:
        """Return the sets of some of the inputs."""
        return LinfRegion(self.clean[rows], self.epsilon, self.lower[rows], self.upper[rows])


@dataclass(frozen=True, slots=True)
class L2Region:
    """All points with |x' - x|_2 <= epsilon within the box."""

    clean: Tensor
    epsilon: float
    lower: Tensor
    upper: Tensor
    norm = "l2"

    def project(self, points: Tensor) -> Tensor:
        """Return points of the set; cutting to the box, in which the clean input lies, makes no change longer."""
        change = (points - self.clean).flatten(1)
        lengths = change.norm(dim=1, keepdim=True)
        change = change * (self.epsilon / lengths.clamp(min=self.epsilon or 1.0)) if self.epsilon else 0 * change
        cut = torch.clamp(self.clean + change.view_as(points), self.lower, self.upper)
        return shortened(cut, self.clean, self.epsilon, 2)

    def take(self, rows: Tensor) -> L2Region:
        """Return the sets of some of the inputs."""
        return L2Region(self.clean[rows], self.epsilon, self.lower[rows], self.upper[rows])


@dataclass(frozen=True, slots=True)
class L1Region:
    """All points with |x' - x|_1 <= epsilon within the box."""

    clean: Tensor
    epsilon: float
    lower: Tensor
    upper: Tensor
    norm = "l1"

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points of the ball cut by the box (Croce & Hein 2021, arXiv:2103.01208, section 2.2)."""
        change = onto_l1_ball(points - self.clean, self.epsilon, self.lower - self.clean, self.upper - self.clean)
        cut = torch.clamp(self.clean + change, self.lower, self.upper)
        return shortened(cut, self.clean, self.epsilon, 1)

    def take(self, rows: Tensor) -> L1Region:
        """Return the sets of some of the inputs."""
        return L1Region(self.clean[rows], self.epsilon, self.lower[rows], self.upper[rows])


def region_of(norm: str, clean: Tensor, epsilon: float, lower: Tensor, upper: Tensor) -> Region:
    """Return the set around clean inputs (B, ...) within a budget and a box, whose bounds broadcast over the inputs."""
    return _REGIONS[norm](clean, epsilon, lower.expand_as(clean), upper.expand_as(clean))


def _linf(clean: Tensor, epsilon: float, lower: Tensor, upper: Tensor) -> LinfRegion:
    exact = clean.double()
    above, below = (exact + epsilon).float(), (exact - epsilon).float()
    above = torch.where(above.double() - exact > epsilon, torch.nextafter(above, clean), above)
    below = torch.where(exact - below.double() > epsilon, torch.nextafter(below, clean), below)
    return LinfRegion(clean, epsilon, torch.maximum(below, lower), torch.minimum(above, upper))


_REGIONS: Mapping[str, Callable[[Tensor, float, Tensor, Tensor], Region]] = {
    "linf": _linf,
    "l2": L2Region,
    "l1": L1Region,
}
