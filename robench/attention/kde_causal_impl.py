"""Causal KDE attention: kernel regression of each query on its own and earlier normalised keys.

Source: Han et al. 2023, arXiv:2210.05794, equation 3, as in ``kde``, masked like the authors' language model
(robust_transformer, src/mem_transformer.py), whose kernel is the released formula's. Their released RKDE language model
is this one: it sets weights on the masked future, where all kernels are zero, and so they stay uniform.

Cost: that of softmax attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.heads import causal
from robench.attention.kde_impl import KdeAttention
from robench.attention.kernels import gaussian_scores, unit

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalKdeAttention(KdeAttention):
    """Causal KDE attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        scores_BHNN = gaussian_scores(q_BHND, unit(k_BHND), self.precision)
        mixed_BHND: Tensor = causal(scores_BHNN).softmax(dim=-1) @ v_BHND
        return mixed_BHND
