"""Nearest adversarial point of each example among all points visited by a minimum-norm attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.attacks.rows import put
from robench.devices import is_asynchronous

if TYPE_CHECKING:
    from torch import Tensor


class Nearest:
    """Nearest successful point of each example.

    Attributes:
        points: (B, ...) nearest successful points; the starting points if there are none.
        distances: (B,) float64, from ``origin`` in ``norm``; infinite if there is none.
    """

    def __init__(self, origin: Tensor, norm: str) -> None:
        self.origin, self.norm = origin, norm
        self.points = origin.clone()
        self.distances = torch.full((len(origin),), torch.inf, dtype=torch.float64, device=origin.device)

    @property
    def found(self) -> Tensor:
        """Return a mask (B,) of the examples with a successful point."""
        return self.distances < torch.inf

    def offer(self, places: Tensor, points: Tensor, succeeded: Tensor) -> None:
        """Keep successful points that are nearer than before; ``places`` are the rows' indices in the batch."""
        if is_asynchronous(succeeded):
            distances = self._from_origin(places, points)
            nearer = succeeded & (distances < self.distances.index_select(0, places))
            put(places, nearer, (self.points, points), (self.distances, distances))
            return
        if not bool(succeeded.any()):
            return
        places, points = places[succeeded], points[succeeded]
        distances = self._from_origin(places, points)
        nearer = distances < self.distances[places]
        self.points[places[nearer]] = points[nearer]
        self.distances[places[nearer]] = distances[nearer]

    def _from_origin(self, places: Tensor, points: Tensor) -> Tensor:
        return length_of(points.double() - self.origin[places].double(), self.norm)


def length_of(change: Tensor, norm: str) -> Tensor:
    """Return the lengths (B,) of changes (B, ...) in the norm."""
    rows = change.flatten(1)
    if norm == "linf":
        return rows.abs().amax(1)
    return rows.norm(dim=1) if norm == "l2" else rows.abs().sum(1)
