"""Scaled dot-product attention: H = softmax(Q K^T / sqrt(D)) V.

Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1; parameters as in timm and DeiT (``qkv`` is [3C, C], order
q, k, v, with bias). Nothing differs: in float64 it agrees with timm's unfused path bit by bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention.heads import attend, merge_heads, split_heads

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.attentions import Softmax


class SoftmaxAttention(nn.Module):
    """Softmax attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Softmax, geometry: Geometry) -> None:
        super().__init__()
        self.num_heads = geometry.num_heads
        self.qkv = nn.Linear(geometry.dim, 3 * geometry.dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        q_BHND, k_BHND, v_BHND = split_heads(self.qkv(x_BNC), self.num_heads, num_projections=3)
        mixed_BNC: Tensor = self.proj(merge_heads(attend(q_BHND, k_BHND, v_BHND)))
        return mixed_BNC
