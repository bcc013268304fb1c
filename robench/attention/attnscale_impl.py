"""AttnScale: scaling of the softmax weights' deviation from uniform by 1 + lambda, learned for each head.

Source: Wang et al. 2022, arXiv:2203.05962 (Anti-Oversmoothing in Deep Vision Transformers):

    A' = 1/N + (1 + lambda) (A - 1/N),  A = softmax(Q K^T / sqrt(D)),  H = A' V

``lamb`` is [H], zero at start, as in the released code (ViT-Anti-Oversmoothing), which agrees. Rows of A' sum to one,
but single weights may be negative. Here uniform weights are applied by taking the mean value, so that A' itself is
never formed: H = mean V + (1 + lambda) (A V - mean V).
"""

import torch
from torch import Tensor, nn

from robench.attention.attnscale import AttnScale
from robench.attention.geometry import Geometry
from robench.attention.heads import attend
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState


class AttnScaleAttention(ProjectedAttention):
    """AttnScale over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: AttnScale, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.lamb = nn.Parameter(torch.zeros(geometry.num_heads))

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        mean_BH1D = v_BHND.mean(dim=-2, keepdim=True)
        factor_H11 = 1 + self.lamb[:, None, None]
        return mean_BH1D + factor_H11 * (attend(q_BHND, k_BHND, v_BHND) - mean_BH1D)
