"""Causal linear attention: the sums over keys are over each query's own and earlier ones.

Source: Katharopoulos et al. 2020, arXiv:2006.16236, section 3.3 (equations 8 to 12), with phi(x) = elu(x) + 1 and
neither a scale nor an epsilon, as in ``linear``. Features are kept as logarithms and running sums as means (see
``running``), so that nothing overflows or is divided by zero in float32.

Cost: O(N D (L + D)) operations, L = 16 tokens a chunk, where softmax attention has O(N^2 D); N L D numbers in memory.
The N / L chunks follow one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from robench.attention.linear_impl import LinearAttention, log_feature
from robench.attention.running import running_features

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalLinearAttention(LinearAttention):
    """Causal linear attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return running_features(log_feature(q_BHND), log_feature(k_BHND), v_BHND)
