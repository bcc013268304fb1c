"""Causal NeuTRENO: causal softmax attention with outputs regularised towards the values of the first layer.

Source: Nguyen, Nguyen & Baraniuk 2023, arXiv:2312.00751, as in ``neutreno``; alpha is 0.4 in the authors' language
models.

Cost: that of softmax attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attention.heads import causal_attend
from robench.attention.neutreno_impl import NeutrenoAttention

if TYPE_CHECKING:
    from torch import Tensor


class CausalNeutrenoAttention(NeutrenoAttention):
    """Causal NeuTRENO over tokens (B, N, C) -> (B, N, C)."""

    def smoothed(self, q_BHND: Tensor, k_BHND: Tensor, v_BHND: Tensor) -> Tensor:
        """Return A V, (B, H, N, D), with the causal A."""
        return causal_attend(q_BHND, k_BHND, v_BHND)
