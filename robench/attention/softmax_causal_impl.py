"""Causal scaled dot-product attention: the softmax of each query is over its own and earlier keys.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3.

Cost: that of softmax attention, the scores of later keys included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import causal_attend
from robench.attention.projected import ProjectedAttention

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalSoftmaxAttention(ProjectedAttention):
    """Causal softmax attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return causal_attend(q_BHND, k_BHND, v_BHND)
