"""Causal Primal-Attention: the scores of each token are of the means of the queries and keys up to it.

Source: Chen, Tao, Tonin & Suykens 2023, arXiv:2305.19798, listing 1 of the supplement (Causal Primal-Attention): before
the feature map of ``primal``, queries and keys are replaced by cumulative means,

    e_i = W_e^T phi(mean_{j <= i} q_j),  r_i = W_r^T phi(mean_{j <= i} k_j)

with projection weights that are parameters (``data_dependent: false``). The supplement's text has data-dependent ones
for WikiText-103; those mix tokens of the whole text, later ones too, and are refused here. The KSVD loss is that of
``primal``, of these scores.

Cost: a product with an N x N matrix for queries and one for keys, where softmax attention has two such products and a
softmax.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attention.primal_impl import PrimalAttention
from robench.attention.running import running_mean

if TYPE_CHECKING:
    from torch import Tensor


class CausalPrimalAttention(PrimalAttention):
    """Causal Primal-Attention over tokens (B, N, C) -> (B, N, C)."""

    def queries_and_keys(self, x_BNC: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cumulative means of the queries and of the keys, (B, H, N, D) each."""
        q_BHND, k_BHND = super().queries_and_keys(x_BNC)
        return running_mean(q_BHND), running_mean(k_BHND)
