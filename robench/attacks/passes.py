"""Forward passes through the victim: their number of rows, and their gradients.

When examples leave an attack, a pass has the next multiple of four rows, with the last one repeated: few shapes occur,
at most three rows are wasted, and it avoids the sizes whose results differ in the last bits from those of larger ones
(measured on the digits checkpoints: one to three rows of a vision transformer, and in FAN most sizes that are not
multiples of four). Compiled passes, which have a graph for each number of rows, have the batch size or a halving of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robench.attacks.rows import spread
from robench.core.errors import NoGradientError
from robench.core.protocols import ShownLayer
from robench.devices import is_asynchronous
from robench.tasks.base import Loss

ROWS_AT_ONCE = 4
# Gradients by outputs whose largest entry is below 2 to this power are computed in float64 and scaled up to it.
LEAST_EXPONENT = -24


def pass_size(num_rows: int, batch_size: int, *, is_compiled: bool = False) -> int:
    """Return the number of rows of a pass for ``num_rows`` examples, at least 1 and at most the batch size.

    It is the next multiple of 4, or for compiled passes the smallest halving of the batch size, in multiples of 4.

    >>> [pass_size(n, 99) for n in (3, 9, 70, 98)]
    [4, 12, 72, 99]
    >>> [pass_size(n, 99, is_compiled=True) for n in (3, 9, 50, 70, 98)]
    [4, 16, 52, 99, 99]
    """
    if not is_compiled:
        return min(batch_size, _in_fours(num_rows))
    size = batch_size
    while size > ROWS_AT_ONCE and (half := _in_fours(-(-size // 2))) >= num_rows:
        size = half
    return size


def padded(points: Tensor, batch_size: int, *, is_compiled: bool = False) -> Tensor:
    """Return points (B, ...), B at most the batch size, padded to a full pass by repeating the last."""
    missing = pass_size(len(points), batch_size, is_compiled=is_compiled) - len(points)
    return torch.cat([points, points[-1:].expand(missing, *points.shape[1:])]) if missing else points


def _in_fours(number: int) -> int:
    return -(-number // ROWS_AT_ONCE) * ROWS_AT_ONCE


@dataclass(frozen=True, slots=True)
class Graph:
    """Forward pass that gradients can be computed from.

    Attributes:
        shown: (B, ...) the padded points; ``outputs``: (N, classes) of the N rows that are not padding.
        of_rows: (N,) each, labels and other arguments of losses beside outputs.
        layers: what the layers of the pass show of the N rows; empty unless asked for.
    """

    shown: Tensor
    outputs: Tensor
    of_rows: Sequence[Tensor]
    layers: Sequence[ShownLayer] = ()

    def gradient(self, loss: Loss, *, again: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs, losses (N,) and their gradient (N, ...); ``again`` keeps the graph for further gradients.

        The gradient of a row that a loss's underflow would hide is a positive power of two times what it is.

        Raises:
            NoGradientError: the outputs do not depend on the points by operations that torch differentiates.
        """
        found = self._gradient(loss, again) if self.outputs.requires_grad else None
        if found is None:
            raise NoGradientError(
                "the model has no gradients by its inputs; take corruptions, or attacks without gradients such as spsa"
            )
        values, gradient = found
        return self.outputs.detach(), values.detach(), gradient[: len(self.outputs)]

    def _gradient(self, loss: Loss, again: bool) -> tuple[Tensor, Tensor] | None:
        """Return losses (N,) and their gradient by all points; None if the outputs depend on other tensors alone."""
        named = {"layers": self.layers} if getattr(loss, "reads_layers", False) else {}
        with torch.enable_grad():
            values = loss(self.outputs, *self.of_rows, **named)
        by_outputs = None
        of = values.sum()
        if not getattr(loss, "is_resolved", False):
            (by_outputs,) = torch.autograd.grad(of, self.outputs)
            of, by_outputs = self.outputs, self._scaled(loss, by_outputs)
        (gradient,) = torch.autograd.grad(of, self.shown, by_outputs, retain_graph=again, allow_unused=True)
        return None if gradient is None else (values, gradient)

    def _scaled(self, loss: Loss, by_outputs: Tensor) -> Tensor:
        """Return gradients by outputs (N, classes), with those of rows too small for float32 computed anew.

        They are scaled up to what float32 resolves and no further: in a coupled model they reach other rows.
        """
        is_small = _largest(by_outputs) < 2.0**LEAST_EXPONENT
        if not is_asynchronous(is_small) and not bool(is_small.any()):
            return by_outputs
        outputs = self.outputs.detach().double().requires_grad_(True)
        with torch.enable_grad():
            values = loss(outputs, *self.of_rows)
        (exact,) = torch.autograd.grad(values.sum(), outputs)
        # Two to a power above 1023 is infinite.
        missing = (LEAST_EXPONENT - torch.frexp(_largest(exact)).exponent).clamp(0, 1000)
        scaled = torch.ldexp(exact, spread(missing, exact)).to(by_outputs.dtype)
        return torch.where(spread(is_small, exact), scaled, by_outputs)


def _largest(gradient: Tensor) -> Tensor:
    return gradient.abs().reshape(len(gradient), -1).amax(1)
