"""Twicing attention: what smoothing by the weights A removed from the values is smoothed too, and added again.

Source: Abdullaev & Nguyen 2025 (Transformer Meets Twicing), definition 2 and equation 19:

    H = A V + A (V - A V),  A = softmax(Q K^T / sqrt(D))

which equals (2 A - A A) V of equation 18 without the product of two N x N matrices. ``qkv`` is [3C, C], order q, k, v,
as in DeiT, whose weights it shares by name and shape.

The authors' vision code (models.py) is the same but for dropout on A, which is off here, and does so in every layer,
which is the default of ``layers``. Their language code squares A, and in the last two of sixteen layers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention.heads import dot_scores, merge_heads, split_heads

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.dot_attentions import Twicing


class TwicingAttention(nn.Module):
    """Twicing attention over tokens (B, N, C) -> (B, N, C); ``declaration.layers`` is the caller's to read."""

    def __init__(self, declaration: Twicing, geometry: Geometry) -> None:
        super().__init__()
        self.num_heads = geometry.num_heads
        self.qkv = nn.Linear(geometry.dim, 3 * geometry.dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        q_BHND, k_BHND, v_BHND = split_heads(self.qkv(x_BNC), self.num_heads, num_projections=3)
        twiced_BHND = twice(dot_scores(q_BHND, k_BHND).softmax(dim=-1), v_BHND)
        mixed_BNC: Tensor = self.proj(merge_heads(twiced_BHND))
        return mixed_BNC


def twice(weights_BHNM: Tensor, v_BHMD: Tensor) -> Tensor:
    """Return A V + A (V - A V), (B, H, N, D), for square A."""
    smoothed_BHND = weights_BHNM @ v_BHMD
    return smoothed_BHND + weights_BHNM @ (v_BHMD - smoothed_BHND)
