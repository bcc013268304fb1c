"""Causal RPC-Attention with separate queries: the keys alone are cleaned, masked in every iteration.

Source: Teo & Nguyen 2024, appendix E.10, as in ``rpc_asymmetric``, with one mu_j for each token and the masks of the
causal form of ``rpc``. The paper has no language model of it.

Cost: ``num_iterations`` causal softmax attentions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import causal_attend
from robench.attention.rpc_asymmetric_impl import RpcAsymmetricAttention
from robench.attention.rpc_impl import pursue, running_threshold_of

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalRpcAsymmetricAttention(RpcAsymmetricAttention):
    """Causal asymmetric RPC-Attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        threshold_BHN1 = running_threshold_of(k_BHND, self.declaration)
        num_iterations = self.declaration.num_iterations
        return pursue(k_BHND, v_BHND, threshold_BHN1, num_iterations, q_BHND, attention=causal_attend)
