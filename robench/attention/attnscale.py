"""AttnScale: the part of the softmax weights that differs from uniform is scaled by 1 + lambda, learned for each head.

Source: Wang et al. 2022, arXiv:2203.05962 (Anti-Oversmoothing in Deep Vision Transformers):

    A' = 1/N + (1 + lambda) (A - 1/N),  A = softmax(Q K^T / sqrt(D)),  H = A' V

``lamb`` is [H], zero at start, as in the released code (ViT-Anti-Oversmoothing), which agrees. Rows of A' sum to one,
but single weights may be negative. Here uniform weights are applied by taking the mean value, so that A' itself is
never made: H = mean V + (1 + lambda) (A V - mean V).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.attention.heads import attend, merge_heads, split_heads

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.dot_attentions import AttnScale


class AttnScaleAttention(nn.Module):
    """AttnScale over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: AttnScale, geometry: Geometry) -> None:
        super().__init__()
        self.num_heads = geometry.num_heads
        self.qkv = nn.Linear(geometry.dim, 3 * geometry.dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)
        self.lamb = nn.Parameter(torch.zeros(geometry.num_heads))

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        q_BHND, k_BHND, v_BHND = split_heads(self.qkv(x_BNC), self.num_heads, num_projections=3)
        mean_BH1D = v_BHND.mean(dim=-2, keepdim=True)
        factor_H11 = 1 + self.lamb[:, None, None]
        mixed_BHND = mean_BH1D + factor_H11 * (attend(q_BHND, k_BHND, v_BHND) - mean_BH1D)
        mixed_BNC: Tensor = self.proj(merge_heads(mixed_BHND))
        return mixed_BNC
