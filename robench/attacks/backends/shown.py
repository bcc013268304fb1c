"""Model wrapper for other libraries: a module over inputs in the attack's space that counts forward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from robench.attacks.passes import padded
from robench.core.errors import ContractError

if TYPE_CHECKING:
    from torch import Tensor

    from robench.attacks.problem import Problem


class ShownVictim(nn.Module):
    """Victim as seen by a library.

    The victim's own module is not a submodule, so that no library can change its mode, its weights or its gradient
    flags. Passes have robench's own sizes. A victim that draws random numbers does so anew in each pass, from the
    global generator, because a library does not report the example of a row.

    Attributes:
        num_rows, num_differentiated: number of rows passed forward, and differentiated.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        # Libraries find the device by a model's first parameter.
        self.device_marker = nn.Parameter(torch.zeros((), device=problem.inputs.device), requires_grad=False)
        self.num_rows = self.num_differentiated = 0
        self._problem = problem
        self.eval()

    def forward(self, points: Tensor) -> Tensor:
        """Return the logits (N, classes) of any number of points (N, ...) of the attack's space.

        Raises:
            ContractError: some are not finite.
        """
        size = self._problem.batch_size
        pieces = [self._piece(points[start : start + size]) for start in range(0, len(points), size)]
        logits = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        if not bool(torch.isfinite(logits).all()):
            raise ContractError("the model returned NaN or infinite logits for inputs of an attack")
        self.num_rows += len(points)
        if logits.requires_grad:
            logits.register_hook(self._count_gradient)
        return logits

    def _count_gradient(self, gradient: Tensor) -> None:
        self.num_differentiated += len(gradient)

    def _piece(self, points: Tensor) -> Tensor:
        shown = self._problem.pixels(padded(points, self._problem.batch_size))
        return self._problem.victim.outputs(shown)[: len(points)]
