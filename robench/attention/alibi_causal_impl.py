"""Causal ALiBi: logits fall linearly with the distance i - j to earlier tokens, by a fixed slope for each head.

Source: Press et al. 2022, arXiv:2108.12409, section 3, whose attention is causal. Slopes are those of ``alibi``.

Cost: that of softmax attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.alibi_impl import AlibiAttention
from robench.attention.heads import causal, dot_scores
from robench.attention.positions import falling_logits

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalAlibiAttention(AlibiAttention):
    """Causal ALiBi attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        scores_BHNN = dot_scores(q_BHND, k_BHND) + falling_logits(self.num_heads, q_BHND.shape[-2], like=q_BHND)
        mixed_BHND: Tensor = causal(scores_BHNN).softmax(dim=-1) @ v_BHND
        return mixed_BHND
