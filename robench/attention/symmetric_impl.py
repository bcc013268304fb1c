"""Symmetric attention: the keys are also the queries, H = softmax(K K^T / sqrt(D)) V.

Source: Teo & Nguyen 2024 (RPC-Attention), the SymViT baseline of section 4. There is no query projection: ``qkv`` is
[2C, C], order k, v, with bias, as in the authors' code (KPCA_code, Robust/softmax.py). The code scales the scores, this
the queries before the product, as timm does; the two differ in rounding alone.

Causal form: the softmax over K K^T / sqrt(D) is over each token's own and earlier keys.

Source: Teo & Nguyen 2024 (RPC-Attention), the language model Symmlm of section 4.2; ``symmetric`` masked.

Cost: that of softmax attention.
"""

from robench.attention.geometry import Geometry
from robench.attention.projected import DotAttention
from robench.attention.symmetric import Symmetric


class SymmetricAttention(DotAttention):
    """Symmetric attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def __init__(self, declaration: Symmetric, geometry: Geometry) -> None:
        super().__init__(declaration, geometry, num_projections=2)
