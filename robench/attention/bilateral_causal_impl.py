"""Causal bilateral attention: logits of contents and of positions, over each token's own and earlier keys.

Source: the Bilateral/Boost paper, arXiv:2506.10371, equation 24, ``bilateral`` masked. The paper does not
say which positions its language model has (section 5.1). Learned positions are the first N vectors of the backbone's.

Cost: that of softmax attention, and the logits of positions, which are kept while the parameters stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.bilateral_impl import BilateralAttention, learned_positions
from robench.attention.heads import causal

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalBilateralAttention(BilateralAttention):
    """Causal bilateral attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        mixed_BHND: Tensor = causal(self.scores(q_BHND, k_BHND, state)).softmax(dim=-1) @ v_BHND
        return mixed_BHND

    def learned(self, state: ForwardState | None, num_tokens: int) -> Tensor:
        """Return the backbone's vectors of the first tokens, (N, C)."""
        return learned_positions(state)[:num_tokens]
