"""Causal symmetric attention: the softmax over K K^T / sqrt(D) is over each token's own and earlier keys.

Source: Teo & Nguyen 2024 (RPC-Attention), the language model Symmlm of section 4.2; ``symmetric`` masked.

Cost: that of softmax attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import causal_attend
from robench.attention.symmetric_impl import SymmetricAttention

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalSymmetricAttention(SymmetricAttention):
    """Causal symmetric attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        k_BHND, v_BHND = heads
        return causal_attend(k_BHND, k_BHND, v_BHND)
