"""The set that an attack may search: an l-infinity ball around each clean input, cut by the pixel range [0, 1].

Libraries clip ``x' - x`` and add it to x again, which in float32 leaves the ball by a rounding error. Here the
bounds are rounded toward the clean input once, so that a clamp to them never exceeds the exact budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Ball:
    """All inputs within the budget; ``lower`` and ``upper`` have the shape of the clean inputs."""

    lower: torch.Tensor
    upper: torch.Tensor

    def project(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the nearest point of the ball."""
        return torch.clamp(inputs, self.lower, self.upper)


def linf_ball(clean: torch.Tensor, epsilon: Fraction) -> Ball:
    """Return all points x' in [0, 1] with |x' - x| <= epsilon, exactly, for clean float32 inputs in [0, 1]."""
    exact = clean.double()
    budget = float(epsilon)
    upper = (exact + budget).float()
    lower = (exact - budget).float()
    upper = torch.where(upper.double() - exact > budget, _towards(upper, clean), upper)
    lower = torch.where(exact - lower.double() > budget, _towards(lower, clean), lower)
    return Ball(lower=lower.clamp(min=0.0), upper=upper.clamp(max=1.0))


def _towards(bound: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
    return torch.nextafter(bound, clean)
