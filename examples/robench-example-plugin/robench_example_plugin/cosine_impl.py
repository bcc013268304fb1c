"""Cosine attention: softmax(s cos(q_i, k_j)) V with a learned scale s of each head.

Source: Liu et al. 2022, arXiv:2111.09883, equation 2, without the bias of relative positions; its 1 / tau is s here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from robench.attention.projected import ProjectedAttention
from torch import Tensor, nn
from torch.nn.functional import normalize

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState

    from robench_example_plugin.cosine import Cosine

# Of a query or key: below it cosines fade to 0, so that gradients stay finite.
LEAST_LENGTH = 1e-6


class CosineAttention(ProjectedAttention):
    """Cosine attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Cosine, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.scale_H = nn.Parameter(torch.full((geometry.num_heads,), declaration.scale))

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        cosines_BHNN = normalize(q_BHND, dim=-1, eps=LEAST_LENGTH) @ normalize(k_BHND, dim=-1, eps=LEAST_LENGTH).mT
        mixed_BHND: Tensor = (self.scale_H.view(1, -1, 1, 1) * cosines_BHNN).softmax(-1) @ v_BHND
        return mixed_BHND
