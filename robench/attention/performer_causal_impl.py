"""Causal Performer: positive random features (FAVOR+), with sums over each query's own and earlier keys.

Source: Choromanski et al. 2021, arXiv:2009.14794, section 2.5 (prefix sums), with the features of ``performer``. The
formula ``released`` has no maximum over keys here, since that of a text depends on later tokens: the features of a key
are exp(w_f . x - |x|^2 / 2) + ``epsilon``, without m, as in the language models of lmtool-fwp. A query keeps its
own maximum. ``paper`` has no maximum in either form. Features are kept as logarithms, and sums over keys as
means (see ``running``), so that none overflows.

Cost: O(N F (L + D)) operations for F features, L = 16 tokens a chunk; N L F numbers in memory. The N / L chunks follow
one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robench.attention.performer_impl import PerformerAttention
from robench.attention.running import running_features

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalPerformerAttention(PerformerAttention):
    """Causal Performer attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return running_features(*self.log_features(q_BHND, k_BHND), v_BHND)

    def largest(self, products_BHNF: Tensor) -> Tensor:
        """Return 0, since no maximum is taken over keys."""
        return torch.zeros_like(products_BHNF[..., :1])
