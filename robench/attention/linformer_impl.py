"""Linformer: projection of keys and values to fewer tokens, K' = E K and V' = E V, before softmax attention.

Source: Wang et al. 2020, arXiv:2006.04768, equation 7, H = softmax(Q (E K)^T / sqrt(D)) F V, here with F = E. Weights:
``qkv`` is [3C, C], order q, k, v, with bias, ``proj``, and ``E``, [H, projection_length, num_tokens], normal with
standard deviation 0.02 at start. It is one linear map over places, so that inputs have exactly ``num_tokens`` tokens.

The paper leaves sharing open. As in the code of the Long Range Arena experiments (mlpen/Nystromformer and, from
it, PrimalAttention) keys and values share E, and each head has its own. That code also shares one E over all layers of
a model, and of every further model in the process, through an attribute of the class. Here each layer owns its E, so
that a layer depends on nothing outside it. A state dict of that code names ``E`` in every layer with the same numbers,
and gives the same outputs here; what differs is training, where these copies part.
"""

import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.heads import attend
from robench.attention.linformer import Linformer
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState

INITIAL_DEVIATION = 0.02


class LinformerAttention(ProjectedAttention):
    """Linformer attention over tokens (B, N, C) -> (B, N, C), N that of the geometry."""

    def __init__(self, declaration: Linformer, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.E = nn.Parameter(torch.empty(geometry.num_heads, declaration.projection_length, geometry.num_tokens))
        nn.init.normal_(self.E, std=INITIAL_DEVIATION)

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return attend(q_BHND, self.E @ k_BHND, self.E @ v_BHND)
