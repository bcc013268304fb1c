"""A pass through the victim: how many rows it has, whoever attacks, and the gradients that are taken of it.

Where examples leave an attack, a pass has the next multiple of four rows, its last one repeated: few shapes occur, at
most three rows are wasted, and none of the sizes whose results differ in the last bits from those of larger ones
(measured on the digits checkpoints: one to three rows of a vision transformer, and in FAN most sizes that are no
multiple of four).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robench.tasks.base import Loss

ROWS_AT_ONCE = 4


def pass_size(num_rows: int, batch_size: int) -> int:
    """Return how many rows a pass has for ``num_rows`` examples: the next multiple of 4, at most the batch.

    >>> [pass_size(n, 99) for n in (3, 9, 70, 98)]
    [4, 12, 72, 99]
    """
    return min(batch_size, -(-num_rows // ROWS_AT_ONCE) * ROWS_AT_ONCE)


def padded(points: Tensor, batch_size: int) -> Tensor:
    """Return points (B, ...), B at most the batch size, with the last repeated until they fill a pass."""
    missing = pass_size(len(points), batch_size) - len(points)
    return torch.cat([points, points[-1:].expand(missing, *points.shape[1:])]) if missing else points


@dataclass(frozen=True, slots=True)
class Graph:
    """One pass, of which gradients can be taken.

    Attributes:
        shown: (B, ...) the points, padded; ``outputs``: (N, classes) of those N rows that are no padding.
        of_rows: (N,) each, labels and what else losses take beside outputs.
    """

    shown: Tensor
    outputs: Tensor
    of_rows: Sequence[Tensor]

    def slope(self, loss: Loss, *, again: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs, losses (N,) and their gradient (N, ...); ``again`` says that more will be taken."""
        with torch.enable_grad():
            values = loss(self.outputs, *self.of_rows)
        (gradient,) = torch.autograd.grad(values.sum(), self.shown, retain_graph=again)
        return self.outputs.detach(), values.detach(), gradient[: len(self.outputs)]
