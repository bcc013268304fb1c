"""RPC-Attention with queries of its own: principal attention pursuit that cleans the keys and leaves the queries alone.

Source: Teo & Nguyen 2024, appendix E.10 (table 14, 4iter/layer1): Algorithm 1 with its second step replaced,

    L <- softmax(Q K'^T / sqrt(D)) V,  K' = K - S - Y / mu

and everything else, mu = N D / (4 |K|_1) and both formulas of the threshold included, as in ``rpc``. ``qkv`` is
[3C, C], order q, k, v, with bias. The row Sym/Asym of the same table is not this one: it is ``rpc`` with softmax
elsewhere.

The authors have released no code for it. ``formula`` is about the threshold alone: ``released`` is lambda * mu with the
width of all heads, as their code has it for symmetric attention. Where the appendix is silent: S and Y start from zero,
as in Algorithm 1, so the first iteration is softmax attention wherever no key passes the threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from robench.attention.heads import merge_heads, split_heads
from robench.attention.rpc import pursue, threshold_of

if TYPE_CHECKING:
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState
    from robench.declarations.dot_attentions import RpcAsymmetric


class RpcAsymmetricAttention(nn.Module):
    """Asymmetric RPC-Attention over tokens (B, N, C) -> (B, N, C); ``declaration.layers`` is the caller's to read."""

    def __init__(self, declaration: RpcAsymmetric, geometry: Geometry) -> None:
        super().__init__()
        self.declaration = declaration
        self.num_heads = geometry.num_heads
        self.qkv = nn.Linear(geometry.dim, 3 * geometry.dim)
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        q_BHND, k_BHND, v_BHND = split_heads(self.qkv(x_BNC), self.num_heads, num_projections=3)
        threshold_BH11 = threshold_of(k_BHND, self.declaration)
        low_rank_BHND = pursue(k_BHND, v_BHND, threshold_BH11, self.declaration.num_iterations, q_BHND)
        mixed_BNC: Tensor = self.proj(merge_heads(low_rank_BHND))
        return mixed_BNC
