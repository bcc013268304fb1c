"""Workaround for wrong gradients of batch norm on batches of one example.

torch (seen in 2.15, on CPUs) computes the gradient of a batch norm in evaluation mode wrongly, without an error, if the
batch has one example and the gradient that arrives lies channel by channel in memory, but with an unusual stride of the
batch, as it does below ``flatten(2).transpose(1, 2)``, the usual way from convolutions to tokens. An attack that
follows such a gradient is weak, and its model looks robust. So gradients of single examples are copied into the usual
order before they reach a batch norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.modules.batchnorm import _BatchNorm

if TYPE_CHECKING:
    from torch import Tensor, nn


def guard_batch_norms(model: nn.Module) -> None:
    """Correct the gradients of a model's batch norms for batches of one example, without changing outputs."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.register_forward_hook(_order_gradient)


def is_guard(hook: object) -> bool:
    """Return whether a hook was registered by ``guard_batch_norms``, so that it changes no output."""
    return hook is _order_gradient


def _order_gradient(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    if output.requires_grad and len(output) == 1:
        output.register_hook(_in_order)


def _in_order(gradient: Tensor) -> Tensor:
    return gradient.contiguous()
