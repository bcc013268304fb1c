"""Logarithms of products of sincs for all pairs of queries and keys, ln |prod_d sinc(q_d - k_d)|, and their gradients.

Each pair has a difference, a sine and a quotient for each of D coordinates: N x M x D numbers, too many to keep.
So blocks are taken one after the other, of some coordinates of some heads, in buffers that every block uses again:
``BUDGET_ON_CPU`` or ``BUDGET_ON_OTHERS`` bytes for all of them, or one matrix N x M each where that is larger. The
gradients compute the differences anew. On a CPU blocks stay in the caches; elsewhere they are large, because each
launches several kernels. The budget changes no bit on a CPU; elsewhere it can change how sums over tokens round.

On a CPU sines, tangents and logarithms are numpy's, which are as exact as torch's and take 2/5, 1/4 and 2/5 of their
time. They make up nearly all of the cost.

Axes: P heads of all examples, N queries, M keys, D coordinates, L coordinates of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Ufunc = Callable[..., Any]

# Bytes of all buffers together.
BUDGET_ON_CPU = 2**22
BUDGET_ON_OTHERS = 2**28
# Coordinates whose product is taken before its logarithm: few enough to stay within the range of float32.
GROUP = 4
# cot(x) - 1 / x = -(x / 3 + x^3 / 45 + 2 x^5 / 945 + ...), and the squares up to which the first three terms are more
# exact than the difference in float32, and all five in float64.
SERIES = (1 / 3, 1 / 45, 2 / 945, 1 / 4725, 2 / 93555)
NEAR_IN_FLOAT64 = 0.01
NEAR_IN_FLOAT32 = 0.09


class LogSincProducts(torch.autograd.Function):
    """ln |prod_d sinc(q_d - k_d)| of (B, H, N, D) and (B, H, M, D) -> (B, H, N, M)."""

    @staticmethod
    def forward(ctx: Any, q_BHND: Tensor, k_BHMD: Tensor) -> Tensor:
        """Return the sums over coordinates."""
        ctx.save_for_backward(q_BHND, k_BHMD)
        q_PDN, k_PDM = by_coordinate(q_BHND), by_coordinate(k_BHMD)
        blocks = Blocks.of(q_PDN, k_PDM, num_buffers=3, group=GROUP)
        total_PNM = q_PDN.new_zeros(len(q_PDN), q_PDN.shape[-1], k_PDM.shape[-1])
        for heads in blocks.heads():
            for first, last in groups(q_PDN.shape[1], blocks.num_groups):
                product_PLNM = blocks.product(q_PDN[heads, first:last], k_PDM[heads, first:last])
                for each_PNM in log_magnitude_(product_PLNM).unbind(1):
                    total_PNM[heads] += each_PNM
        return total_PNM.view(*q_BHND.shape[:-1], k_BHMD.shape[-2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients for queries and keys; the differences are recomputed."""
        q_BHND, k_BHMD = ctx.saved_tensors
        q_PDN, k_PDM = by_coordinate(q_BHND), by_coordinate(k_BHMD)
        gradient_P1NM = gradients[0].flatten(0, 1).unsqueeze(1)
        blocks = Blocks.of(q_PDN, k_PDM, num_buffers=4, group=1)
        of_q_PDN, of_k_PDM = torch.empty_like(q_PDN), torch.empty_like(k_PDM)
        for heads in blocks.heads():
            for first in range(0, q_PDN.shape[1], blocks.num_groups):
                part = heads, slice(first, first + blocks.num_groups)
                derivatives_PLNM = blocks.derivatives(q_PDN[part], k_PDM[part]).mul_(gradient_P1NM[heads])
                of_q_PDN[part] = derivatives_PLNM.sum(dim=-1)
                of_k_PDM[part] = derivatives_PLNM.sum(dim=-2)
        return of_q_PDN.mT.reshape(q_BHND.shape), of_k_PDM.neg_().mT.reshape(k_BHMD.shape)


class Blocks(NamedTuple):
    """Buffers of one block, the number of heads, and how many heads and groups of coordinates a block has."""

    buffers: tuple[Tensor, ...]
    num_heads: int
    heads_at_once: int
    num_groups: int

    @classmethod
    def of(cls, q_PDN: Tensor, k_PDM: Tensor, *, num_buffers: int, group: int) -> Blocks:
        """Return the largest blocks within the budget: first all groups of one head, then several heads.

        A group of coordinates takes one matrix of each buffer.
        """
        num_heads, num_coordinates, num_queries = q_PDN.shape
        pairs = num_queries * k_PDM.shape[-1]
        budget = BUDGET_ON_CPU if q_PDN.device.type == "cpu" else BUDGET_ON_OTHERS
        num_matrices = budget // (num_buffers * q_PDN.element_size() * max(1, pairs))
        num_groups = max(1, min(-(-num_coordinates // group), num_matrices))
        heads_at_once = max(1, min(num_heads, num_matrices // num_groups))
        buffers = q_PDN.new_empty(num_buffers, heads_at_once * num_groups * pairs)
        return cls(buffers.unbind(0), num_heads, heads_at_once, num_groups)

    def heads(self) -> Iterator[slice]:
        """Yield the heads of each block."""
        for first in range(0, self.num_heads, self.heads_at_once):
            yield slice(first, first + self.heads_at_once)

    def product(self, q_PLN: Tensor, k_PLM: Tensor) -> Tensor:
        """Return the products of the sincs of up to ``GROUP`` consecutive coordinates, (P, L / GROUP, N, M)."""
        for place in range(min(GROUP, q_PLN.shape[1])):
            q_each, k_each = q_PLN[:, place::GROUP], k_PLM[:, place::GROUP]
            difference, factor, product = self.views(q_each, k_each)
            torch.sub(q_each.unsqueeze(-1), k_each.unsqueeze(-2), out=difference)
            if place == 0:
                sinc(difference, out=product)
            else:
                product.mul_(sinc(difference, out=factor))
        return product

    def derivatives(self, q_PLN: Tensor, k_PLM: Tensor) -> Tensor:
        """Return the derivatives of ln |sinc| at the differences, (P, L, N, M)."""
        difference, *others = self.views(q_PLN, k_PLM)
        return log_sinc_derivative(torch.sub(q_PLN.unsqueeze(-1), k_PLM.unsqueeze(-2), out=difference), others)

    def views(self, q_PLN: Tensor, k_PLM: Tensor) -> list[Tensor]:
        """Return the buffers, of the shape (P, L, N, M)."""
        shape = (*q_PLN.shape, k_PLM.shape[-1])
        return [each[: q_PLN.numel() * k_PLM.shape[-1]].view(shape) for each in self.buffers]


def groups(num_coordinates: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of ``most`` whole groups of coordinates, and of what is left over."""
    whole = num_coordinates - num_coordinates % GROUP
    for first in range(0, whole, most * GROUP):
        yield first, min(first + most * GROUP, whole)
    if whole < num_coordinates:
        yield whole, num_coordinates


def by_coordinate(x_BHND: Tensor) -> Tensor:
    """Return (P, D, N), contiguous, so that each coordinate's tokens are neighbours in memory."""
    return x_BHND.flatten(0, 1).mT.contiguous()


def sinc(x: Tensor, *, out: Tensor) -> Tensor:
    """Return sin(x) / x, and 1 at 0, in ``out``; ``x`` is overwritten."""
    magnitude = x.abs_().clamp_(min=torch.finfo(x.dtype).tiny)
    return applied(np.sin, torch.sin, magnitude, out=out).div_(magnitude)


def log_magnitude_(x: Tensor) -> Tensor:
    """Return ln |x| in place of x, of the smallest normal number for smaller ones."""
    return applied(np.log, torch.log, x.abs_().clamp_(min=torch.finfo(x.dtype).tiny), out=x)


def log_sinc_derivative(x: Tensor, buffers: list[Tensor]) -> Tensor:
    """Return cot(x) - 1 / x, the derivative of ln |sinc(x)|; near 0, where the terms cancel, by its series.

    ``x`` and the three buffers are overwritten; one of these is returned.
    """
    square, series, difference = buffers
    is_double = x.dtype == torch.float64
    *others, before, last = (x.new_tensor(-each) for each in (SERIES if is_double else SERIES[:3]))
    torch.mul(x, x, out=square)
    torch.addcmul(before, last, square, out=series)
    for coefficient in reversed(others):
        torch.addcmul(coefficient, series, square, out=series)
    series.mul_(x)
    applied(np.tan, torch.tan, x, out=difference).reciprocal_().sub_(x.reciprocal_()).sub_(series)
    # Nothing is added where the square is small: torch.where takes several times as long on a processor.
    return series.add_(
        torch.ops.aten.threshold_backward(difference, square, NEAR_IN_FLOAT64 if is_double else NEAR_IN_FLOAT32)
    )


def applied(on_cpu: Ufunc, elsewhere: Ufunc, x: Tensor, *, out: Tensor) -> Tensor:
    """Return the function of each element in ``out``: numpy's on a processor in float32 and float64, or torch's."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        elsewhere(x, out=out)
        return out
    with np.errstate(all="ignore"):
        on_cpu(x.detach().numpy(), out=out.detach().numpy())
    return out
