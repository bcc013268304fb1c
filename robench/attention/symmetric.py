"""Symmetric attention: the keys are also the queries, H = softmax(K K^T / sqrt(D)) V.

Source: Teo & Nguyen 2024 (RPC-Attention), the SymViT baseline of section 4. There is no query projection: ``qkv`` is
[2C, C], order k, v, with bias, as in the authors' code (KPCA_code, Robust/softmax.py). The code scales the scores, this
the queries before the product, as timm does; the two differ in rounding alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention.heads import attend, merge_heads, split_heads

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.attentions import Symmetric


class SymmetricAttention(nn.Module):
    """Symmetric attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Symmetric, geometry: Geometry) -> None:
        super().__init__()
        self.num_heads = geometry.num_heads
        self.qkv = nn.Linear(geometry.dim, 2 * geometry.dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        k_BHND, v_BHND = split_heads(self.qkv(x_BNC), self.num_heads, num_projections=2)
        mixed_BNC: Tensor = self.proj(merge_heads(attend(k_BHND, k_BHND, v_BHND)))
        return mixed_BNC
