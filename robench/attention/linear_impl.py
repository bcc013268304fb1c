"""Linear attention: normalised inner products of positive features in the place of the softmax.

Source: Katharopoulos et al. 2020, arXiv:2006.16236, equations 5 to 7. With phi(x) = elu(x) + 1, entry by entry,

    H = A V,  A_ij = phi(q_i) . phi(k_j) / sum_j' phi(q_i) . phi(k_j')

and A is never formed: its two factors, (N, D) and (D, N), multiply the values one after the other. Weights are those of
softmax attention: ``qkv`` is [3C, C], order q, k, v, with bias, and ``proj``.

There is neither a scale nor an epsilon, as in the paper. The authors' code adds 1e-6 to the denominator; that of
lmtool-fwp, on which the Twicing paper builds, scales by 1 / sqrt(D) and adds 1e-5; that of the Long Range Arena
experiments (mlpen/Nystromformer) does not divide by the sum at all. Here features are kept as logarithms
(phi(x) is 1 + x above zero and e^x below), which needs no epsilon: nothing is divided, and queries so negative that all
their features underflow still have weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robench.attention.heads import feature_factors
from robench.attention.projected import ProjectedAttention

if TYPE_CHECKING:
    from robench.attention.state import ForwardState


class LinearAttention(ProjectedAttention):
    """Linear attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        spread_BHND, gather_BHDN = feature_factors(log_feature(q_BHND), log_feature(k_BHND))
        return spread_BHND @ (gather_BHDN @ v_BHND)


def log_feature(x: Tensor) -> Tensor:
    """Return log(elu(x) + 1) of each entry: log(1 + x) above zero, x below."""
    # relu, because where() hands the gradient of both branches on, and that of log1p is infinite at -1.
    return torch.where(x > 0, x.relu().log1p(), x)
