"""Robust KDE attention: h_i = sum_j v_j w_j k(q_i - k_j) / sum_j u_j k(q_i - k_j), with less weight for outliers.

Source: Han et al. 2023, Designing Robust Transformers using Robust Kernel Density Estimation, arXiv:2210.05794,
Algorithm 1 and appendix B. k is the Gaussian kernel of ``kde``, keys normalised. The weights w of the joint density,
of x_j = [k_j, v_j], and u of the marginal one, of x_j = k_j, are each found by iteratively re-weighted least squares
(equations 25 and 26):

    h_j^2 = k(x_j, x_j) - 2 sum_m w_m k(x_m, x_j) + sum_mn w_m w_n k(x_m, x_n),    w_j = psi(h_j) / sum_m psi(h_m)

with psi from ``robust_losses``. They start uniform (random in the paper, uniform in the code) and stay as they are
where all would vanish. Values are not normalised, and both densities have the same bandwidth.

Two formulas, chosen by a field:

* ``paper``: as above, k(x, y) = exp(-|x - y|^2 / (2 sqrt(D))), so that k(x, x) = 1.
* ``released``: the authors' code (robust_transformer, imagenet/models.py) has exp(-|x - y|^2 / sqrt(D)), and adds
  sum_m w_m k(x_m, x_j) where the paper subtracts it twice, so that h lies in [1, sqrt(3)] and is *smaller* for
  outliers. So Huber with a <= 1 weighs all by 1 / h whatever a is, and Hampel with a <= 1/3 is plain KDE. Weights from
  Hampel's c on are 0.01. Welsch and Tukey are not in the code: here they apply their own psi to its h, without a tail.

Where this differs: from the second iteration on the code averages weights over the batch and all heads; here each head
of each example has its own, so that no example depends on its neighbours. Rows do not sum to one, in either formula. A
row's quotient has no bound where u vanishes and w does not, so a weight is held below the fourth root of the largest
number (4e9 in float32), where neither output nor gradient overflows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robench.attention.kernels import gaussian_gram, gaussian_scores, precision_of, unit
from robench.attention.projected import ProjectedAttention
from robench.attention.robust_losses import LOG_WEIGHTS

if TYPE_CHECKING:
    from robench.attention.base import Formula
    from robench.attention.geometry import Geometry
    from robench.attention.rkde import Rkde
    from robench.attention.state import ForwardState


class RkdeAttention(ProjectedAttention):
    """Robust KDE attention over tokens (B, N, C) -> (B, N, C)."""

    def __init__(self, declaration: Rkde, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration
        self.precision = precision_of(declaration.formula, geometry.head_dim)

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        k_BHND = unit(k_BHND)
        joint_BHMM = gaussian_gram(torch.cat([k_BHND, v_BHND], dim=-1), self.precision)
        weights_BHNM = quotients(
            gaussian_scores(q_BHND, k_BHND, self.precision),
            robust_log_weights(joint_BHMM, self.declaration),
            robust_log_weights(gaussian_gram(k_BHND, self.precision), self.declaration),
        )
        return weights_BHNM @ v_BHND


def robust_log_weights(gram_BHMM: Tensor, declaration: Rkde) -> Tensor:
    """Return the logarithms of each point's weight, (B, H, M), after the declared number of re-weightings."""
    log_weights_BHM = torch.full_like(gram_BHMM[..., 0], -math.log(gram_BHMM.shape[-1]))
    for _ in range(declaration.num_iterations):
        squared_BHM = squared_distances(gram_BHMM, log_weights_BHM, declaration.formula)
        log_psi_BHM = log_psi(squared_BHM, declaration)
        vanished_BH1 = log_psi_BHM.isneginf().all(dim=-1, keepdim=True)
        log_psi_BHM = torch.where(vanished_BH1, log_weights_BHM, log_psi_BHM)
        log_weights_BHM = log_psi_BHM.log_softmax(dim=-1)
    return log_weights_BHM


def log_psi(squared: Tensor, declaration: Rkde) -> Tensor:
    """Return ln psi of each point, of the shape of h^2."""
    tail = 0.01 if declaration.loss == "hampel" and declaration.formula == "released" else 0.0
    return LOG_WEIGHTS[declaration.loss](squared, declaration.threshold, tail)


def squared_distances(gram_BHMM: Tensor, log_weights_BHM: Tensor, formula: Formula) -> Tensor:
    """Return h^2 of each point, (B, H, M): its squared distance from the weighted mean in the kernel's space."""
    weights_BHM = log_weights_BHM.exp()
    to_mean_BHM = (gram_BHMM @ weights_BHM.unsqueeze(-1)).squeeze(-1)
    of_mean_BH1 = (weights_BHM * to_mean_BHM).sum(dim=-1, keepdim=True)
    if formula == "released":
        return 1 + to_mean_BHM + of_mean_BH1
    return (1 - 2 * to_mean_BHM + of_mean_BH1).clamp(min=0)


def quotients(scores_BHNM: Tensor, log_joint_BHM: Tensor, log_marginal_BHM: Tensor) -> Tensor:
    """Return w_j k(q_i - k_j) / sum_m u_m k(q_i - k_m), of shape (B, H, N, M), from the logarithms."""
    marginal_BHN1 = (log_marginal_BHM.unsqueeze(-2) + scores_BHNM).logsumexp(dim=-1, keepdim=True)
    return bounded(log_joint_BHM.unsqueeze(-2) + scores_BHNM - marginal_BHN1)


def bounded(log_quotients: Tensor) -> Tensor:
    """Return the quotients, of the same shape, below the fourth root of the largest number."""
    return log_quotients.clamp(max=math.log(torch.finfo(log_quotients.dtype).max) / 4).exp()
