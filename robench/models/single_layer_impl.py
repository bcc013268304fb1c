"""Single attention layer over tokens, with what a backbone would hand on to it.

Axes: B batch, N tokens, C width of a token, H heads, D width of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.state import ForwardState

if TYPE_CHECKING:
    from robench.models.single_layer import SingleLayer


class LayerOfTokens(nn.Module):
    """Attention layer whose earlier layers have published its own tokens as their values.

    Attributes:
        takes_seeds: see ``TransformerModel``.
        positions: random vectors of positions, (N, C).
    """

    takes_seeds = True
    positions: Tensor

    def __init__(self, declared: SingleLayer) -> None:
        super().__init__()
        self.num_heads, self.earlier = declared.num_heads, range(declared.layer)
        geometry = Geometry(
            dim=declared.dim,
            num_heads=declared.num_heads,
            num_tokens=declared.num_tokens,
            depth=declared.depth,
            layer=declared.layer,
        )
        self.attention = build_attention(declared.attention, geometry)
        self.register_buffer("positions", torch.randn(declared.num_tokens, declared.dim))

    def forward(self, x_BNC: Tensor, seeds: tuple[int, ...] | None = None) -> Tensor:
        """Return (B, N, C)."""
        values_BHND = x_BNC.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        earlier = dict.fromkeys(self.earlier, values_BHND)
        state = ForwardState(seeds=seeds, values_BHND=earlier, positions_NC=self.positions)
        mixed_BNC: Tensor = self.attention(x_BNC, state)
        return mixed_BNC
