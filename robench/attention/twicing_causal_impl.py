"""Causal twicing attention: A V + A (V - A V), with A the causal softmax weights.

Source: Abdullaev & Nguyen 2025 (Transformer Meets Twicing), equation 19, as in ``twicing``; 2 A - A A is lower
triangular where A is. The authors' language code squares A, and in the last two of sixteen layers alone, which is
``layers: [14, 15]``; their paper does not mention it.

Cost: that of softmax attention, and one more product of A with values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import causal, dot_scores
from robench.attention.twicing_impl import TwicingAttention, twice

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalTwicingAttention(TwicingAttention):
    """Causal twicing attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return twice(causal(dot_scores(q_BHND, k_BHND)).softmax(dim=-1), v_BHND)
