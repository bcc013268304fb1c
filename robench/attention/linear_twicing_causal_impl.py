"""Causal twicing over linear attention: A V + A (V - A V), with A the weights of causal linear attention.

Source: Abdullaev & Nguyen 2025 (Twicing Attention), appendix B.1 and table 8, with A that of the causal form of
``linear``; the paper's language models construct A, and no code of them is published.

Cost: twice that of causal linear attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.linear_impl import log_feature
from robench.attention.linear_twicing_impl import LinearTwicingAttention
from robench.attention.running import running_features

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalLinearTwicingAttention(LinearTwicingAttention):
    """Causal twicing over linear attention, tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        log_queries_BHND, log_keys_BHND = log_feature(q_BHND), log_feature(k_BHND)
        smoothed_BHND = running_features(log_queries_BHND, log_keys_BHND, v_BHND)
        return smoothed_BHND + running_features(log_queries_BHND, log_keys_BHND, v_BHND - smoothed_BHND)
