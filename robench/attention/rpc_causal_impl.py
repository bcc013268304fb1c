"""Causal RPC-Attention: principal attention pursuit with one mu for each token, masked in every iteration.

Source: Teo & Nguyen 2024, Algorithm 1, which the paper runs in the first four layers of its language model without
saying how that is made causal (section 4.2). Here mu_j, and so the threshold of token j's row of S, is of the keys of
tokens 0..j,

    mu_j = (j + 1) D / (4 |K_0..j|_1)

(with C in place of D in the released formula), and the softmax of each iteration is over a token's own and earlier
cleaned keys. All else is row by row, as in ``rpc``. The authors' code of RPC's language model is not published.

Cost: ``num_iterations`` causal softmax attentions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import causal_attend
from robench.attention.rpc_impl import RpcAttention, pursue, running_threshold_of

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalRpcAttention(RpcAttention):
    """Causal RPC-Attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        k_BHND, v_BHND = heads
        threshold_BHN1 = running_threshold_of(k_BHND, self.declaration)
        return pursue(k_BHND, v_BHND, threshold_BHN1, self.declaration.num_iterations, attention=causal_attend)
