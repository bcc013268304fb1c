"""Causal SPKDE attention: a quadratic program for the past of each query.

Source: Han et al. 2023, arXiv:2210.05794, Algorithm 1 and equations 6 to 9, as in ``spkde``: query i has the weights of
the densities of the keys 0..i: ``spkde`` on the first i + 1 tokens, for the last of them. The paper prints results of a
language model without more details, and the authors' code has none.

Cost: 2 N quadratic programs a head in place of 2, each O(n^3) for n keys, and so O(N^4) operations where softmax
attention has O(N^2 D), and O(N^3) numbers in memory under gradients. 256 tokens take 256 times the
operations of 64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from robench.attention.kernels import gaussian_scores, unit
from robench.attention.rkde_causal_impl import prefix_quotients
from robench.attention.spkde_impl import SpkdeAttention

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class CausalSpkdeAttention(SpkdeAttention):
    """Causal SPKDE attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        k_BHND = unit(k_BHND)
        weights_BHNN = prefix_quotients(
            gaussian_scores(q_BHND, k_BHND, self.precision),
            self.prefix_log_weights(torch.cat([k_BHND, v_BHND], dim=-1)),
            self.prefix_log_weights(k_BHND),
        )
        return weights_BHNN @ v_BHND

    def prefix_log_weights(self, points_BHND: Tensor) -> Tensor:
        """Return the logarithms of the weights for each prefix, (B, H, N, N), minus infinity for later keys."""
        num_tokens = points_BHND.shape[-2]
        rows = [
            pad(self.log_weights(points_BHND[..., :count, :]), (0, num_tokens - count), value=-torch.inf)
            for count in range(1, num_tokens + 1)
        ]
        return torch.stack(rows, dim=-2)
