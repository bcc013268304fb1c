"""Causal FourierFormer attention: the sinc kernels of each query with its own and earlier keys, over their sum.

Source: Nguyen et al. 2022, arXiv:2206.00206, as in ``fourier``, masked before the sum, to which the authors' language
model adds 1e-6 too. Its ``paramR`` starts at 2; here it starts at 1, as for images.

Cost: D passes over the N x N kernel, as in ``fourier``, where softmax attention has one product; no more memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.fourier_impl import FLOOR, FourierAttention
from robench.attention.heads import causal
from robench.attention.kernels import weights_above
from robench.attention.sinc_products import LogSincProducts

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalFourierAttention(FourierAttention):
    """Causal FourierFormer attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        log_products_BHNN: Tensor = LogSincProducts.apply(self.paramR * q_BHND, self.paramR * k_BHND)
        weights_BHNN = weights_above(causal(self.power * log_products_BHNN), FLOOR)
        return weights_BHNN @ v_BHND
