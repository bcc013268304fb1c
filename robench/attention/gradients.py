"""Gradients of a mechanism other than its own, of the same outputs (``gradients`` of attacks).

A module lists the modes it offers as ``gradient_modes``. Its ``gradient_mode`` is the one of the next pass, ``own``
unless ``models.loaded`` sets another for the time of a pass.
"""

from typing import Any

import torch
from torch import Tensor

OUTSIDE_KERNEL, WITHIN_KERNEL = KERNEL_MODES = ("outside_kernel", "within_kernel")


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, surrogate: Tensor) -> Tensor:
        # A view, because products of tensors of another layout may round otherwise.
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


def with_gradient_of(value: Tensor, surrogate: Tensor) -> Tensor:
    """Return ``value``, bit for bit, with the gradient of a surrogate of the same shape, which may be NaN."""
    found: Tensor = _StraightThrough.apply(value.detach(), surrogate)
    return found


def split_by_kernel(mode: str, tensors: tuple[Tensor, ...], map_HMN: Tensor) -> tuple[Tensor, ...]:
    """Return tensors (B, H, N, D) whose gradients g are cut to the kernel of a map A of each head's tokens, or outside.

    With the projection P = A^+ A on the tokens that A reads, which is A^T (A A^T)^-1 A for an A of full rank, g is
    replaced by (I - P) g (``within_kernel``) or P g (``outside_kernel``); other modes change nothing.
    """
    if mode not in KERNEL_MODES or not torch.is_grad_enabled():
        return tensors
    with torch.no_grad():
        # Half precision has no factorisations.
        map_HMN = map_HMN.to(torch.promote_types(map_HMN.dtype, torch.float32))
        kept_HNN = torch.linalg.pinv(map_HMN) @ map_HMN
        if mode == WITHIN_KERNEL:
            kept_HNN = torch.eye(map_HMN.shape[-1], dtype=kept_HNN.dtype, device=kept_HNN.device) - kept_HNN
    return tuple(with_gradient_of(each_BHND, kept_HNN @ each_BHND) for each_BHND in tensors)
