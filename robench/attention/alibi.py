"""ALiBi: softmax attention whose logits fall linearly with distance, by a fixed slope for each head.

Source: Press et al. 2022, arXiv:2108.12409, section 3:

    H = softmax(Q K^T / sqrt(D) - m_h |i - j|) V,  m_h = 2^(-8 h / H), h = 1..H

Nothing is learned beyond ``qkv`` and ``proj``. The paper's attention is causal, so that its distance is i - j; for
tokens that see both sides it becomes |i - j|, the form that the Bilateral paper compares with (remark 3.4). The
distance runs over the token index, from patch to patch and row to row, class token included: neither paper speaks of
two dimensions. Paper and code differ in the slopes where the number of heads is no power of two; see ``positions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention.heads import dot_scores, merge_heads, split_heads
from robench.attention.positions import falling_logits

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.dot_attentions import Alibi


class AlibiAttention(nn.Module):
    """ALiBi attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Alibi, geometry: Geometry) -> None:
        super().__init__()
        self.num_heads = geometry.num_heads
        self.qkv = nn.Linear(geometry.dim, 3 * geometry.dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        q_BHND, k_BHND, v_BHND = split_heads(self.qkv(x_BNC), self.num_heads, num_projections=3)
        scores_BHNN = dot_scores(q_BHND, k_BHND) + falling_logits(self.num_heads, x_BNC.shape[1], like=q_BHND)
        mixed_BNC: Tensor = self.proj(merge_heads(scores_BHNN.softmax(dim=-1) @ v_BHND))
        return mixed_BNC
