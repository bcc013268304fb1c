"""Causal mixture of Gaussian keys: the kernels of each query with its own and earlier tokens, over their sum.

Source: Nguyen et al. 2022, arXiv:2110.08678, in the form of the authors' language model (transformer-mgk,
``rbf2keys``), as in ``mgk``. As there, ``pi0``, ``pi1``, ... are [H, 1, 1, num_tokens], a weight for each head and each
position of a key in the text; a shorter text has the first ones. So their shape is not that of the other form.

Cost: ``num_mixtures`` kernels of N x N where softmax attention has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.attention.mgk_impl import MgkAttention

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.mgk import Mgk


class CausalMgkAttention(MgkAttention):
    """Causal attention to a mixture of Gaussian keys over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Mgk, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        for place in range(self.num_mixtures):
            share_H11N = torch.full((self.num_heads, 1, 1, geometry.num_tokens), 1 / self.num_mixtures)
            self.register_parameter(f"pi{place}", nn.Parameter(share_H11N))

    def share(self, place: int, num_tokens: int) -> Tensor:
        """Return pi_r of each head and position of a key, (H, 1, N)."""
        return super().share(place, num_tokens)[..., :num_tokens]

    def kernels(self, place: int, q_BHND: Tensor, k_BHND: Tensor) -> Tensor:
        """Return pi_rj exp(-(r + 1/2) |q_i - k_j|^2 / sqrt(D)) for one of the keys, (B, H, N, N), zero for j > i."""
        return super().kernels(place, q_BHND, k_BHND).tril()
