"""FourierFormer attention: h_i = sum_j v_j k(q_i, k_j) / (sum_j k(q_i, k_j) + 1e-6), k = prod_d sinc(R (q_d - k_d))^p.

Source: Nguyen et al. 2022, FourierFormer: Transformer Meets Generalized Fourier Integral Theorem, arXiv:2206.00206,
with sinc(x) = sin(x) / x and phi(x) = x^p. ``paramR`` is R, of shape [1], one at start, as in the authors' code for
images (FourierFormer_NeurIPS, robust_transformer). The 1e-6 is missing in the paper but present in the code, and used
here, because all kernels of a query that is far from all keys may vanish: its output is then zero.

Where this differs from the code: its CUDA kernel reads ``paramR[d]``, past the end of the parameter; here one R serves
all coordinates. Kernels are added up as logarithms, since products over 64 coordinates leave float32. ``power`` must be
even, because odd powers make kernels negative, and their sum possibly zero.

Coordinates are visited one by one in both directions, so that no tensor of shape N x N x D is formed: memory is that of
a few N x N matrices, for D times the passes over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from robench.attention.kernels import weights_above
from robench.attention.projected import ProjectedAttention

if TYPE_CHECKING:
    from robench.attention.fourier import Fourier
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState

FLOOR = 1e-6
# Coordinates whose product is taken before its logarithm: few enough to stay within the range of float32.
GROUP = 4


class FourierAttention(ProjectedAttention):
    """FourierFormer attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Fourier, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.power = declaration.power
        self.paramR = nn.Parameter(torch.ones(1))

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        log_products_BHNM: Tensor = LogSincProducts.apply(self.paramR * q_BHND, self.paramR * k_BHND)
        weights_BHNM = weights_above(self.power * log_products_BHNM, FLOOR)
        return weights_BHNM @ v_BHND


class LogSincProducts(torch.autograd.Function):
    """ln |prod_d sinc(q_d - k_d)| of (B, H, N, D) and (B, H, M, D) -> (B, H, N, M)."""

    @staticmethod
    def forward(ctx: Any, q_BHND: Tensor, k_BHMD: Tensor) -> Tensor:
        """Return the sums over coordinates."""
        ctx.save_for_backward(q_BHND, k_BHMD)
        total_BHNM = q_BHND.new_zeros(*q_BHND.shape[:-1], k_BHMD.shape[-2])
        for group in range(0, q_BHND.shape[-1], GROUP):
            product_BHNM = torch.ones_like(total_BHNM)
            for d in range(group, min(group + GROUP, q_BHND.shape[-1])):
                product_BHNM *= sinc(q_BHND[..., :, None, d] - k_BHMD[..., None, :, d])
            total_BHNM += product_BHNM.abs_().clamp_(min=torch.finfo(q_BHND.dtype).tiny).log_()
        return total_BHNM

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients for queries and keys; the differences are recomputed."""
        q_BHND, k_BHMD = ctx.saved_tensors
        of_q, of_k = [], []
        for d in range(q_BHND.shape[-1]):
            slopes_BHNM = log_sinc_slope(q_BHND[..., :, None, d] - k_BHMD[..., None, :, d]) * gradients[0]
            of_q.append(slopes_BHNM.sum(dim=-1))
            of_k.append(-slopes_BHNM.sum(dim=-2))
        return torch.stack(of_q, dim=-1), torch.stack(of_k, dim=-1)


def sinc(x: Tensor) -> Tensor:
    """Return sin(x) / x, and 1 at 0."""
    magnitude = x.abs().clamp_(min=torch.finfo(x.dtype).tiny)
    return magnitude.sin().div_(magnitude)


def log_sinc_slope(x: Tensor) -> Tensor:
    """Return cot(x) - 1 / x, the derivative of ln |sinc(x)|; near 0, where the terms cancel, by its series."""
    square = x.square()
    series = (square * (2 / 93555)).add_(1 / 4725)
    for coefficient in (2 / 945, 1 / 45, 1 / 3):
        series.mul_(square).add_(coefficient)
    return torch.where(square < 0.01, series.mul_(x).neg_(), x.tan().reciprocal_() - x.reciprocal())
