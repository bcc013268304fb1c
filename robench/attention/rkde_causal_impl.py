"""Causal robust KDE attention: densities, and the weights of their keys, are of keys up to a token.

Source: Han et al. 2023, arXiv:2210.05794, Algorithm 1, as in ``rkde``; section 3.1 says that weights are matrices of
pairs of positions, and start uniform on the unmasked part of a text. A field, ``prefix``, chooses whose past counts:

* ``query``: the paper's. Query i has a density of the keys 0..i, and in it weights of its own: ``rkde`` on the first
  i + 1 tokens, for the last of them.
* ``key``: what the authors' code intends (robust_transformer, src/mem_transformer.py). psi of key j is found once, by
  its distance h_j from the mean of the keys 0..j, and query i divides it by the sum over the keys 0..i. Where all of
  these vanish, its weights stay as they are.
* ``none``: that code as released, which puts the weights at the start on the masked future, so that they stay uniform:
  causal ``kde``.

The last term of that code's h_j^2 is a mean over m <= j of the means over the keys up to m; here both means are over
the keys up to j. It divides psi by the sum over all keys, later ones too; here by the sum over those of the query's
past.

Cost: a product of two N x N matrices for each iteration and density, O(N^3) operations where softmax attention has
O(N^2 D). About 20 N x N matrices are kept for gradients, where softmax attention keeps one, and 12 more for each
further iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robench.attention.heads import causal
from robench.attention.kernels import gaussian_gram, gaussian_scores, unit
from robench.attention.rkde_impl import RkdeAttention, bounded, log_psi

if TYPE_CHECKING:
    from robench.attention.base import Formula
    from robench.attention.rkde import Rkde
    from robench.attention.state import ForwardState


class CausalRkdeAttention(RkdeAttention):
    """Causal robust KDE attention over tokens (B, N, C) -> (B, N, C)."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        k_BHND = unit(k_BHND)
        joint_BHNN = gaussian_gram(torch.cat([k_BHND, v_BHND], dim=-1), self.precision)
        weights_BHNN = prefix_quotients(
            gaussian_scores(q_BHND, k_BHND, self.precision),
            prefix_log_weights(joint_BHNN, self.declaration),
            prefix_log_weights(gaussian_gram(k_BHND, self.precision), self.declaration),
        )
        return weights_BHNN @ v_BHND


def prefix_log_weights(gram_BHNN: Tensor, declaration: Rkde) -> Tensor:
    """Return the logarithms of each prefix's weights, (B, H, N, N): row i for keys 0..i, minus infinity for others."""
    log_weights_BHNN = causal(torch.zeros_like(gram_BHNN)).log_softmax(dim=-1)
    for _ in range(0 if declaration.prefix == "none" else declaration.num_iterations):
        squared_BHNN = prefix_squared_distances(gram_BHNN, log_weights_BHNN.exp(), declaration.formula)
        if declaration.prefix == "key":
            squared_BHNN = squared_BHNN.diagonal(dim1=-2, dim2=-1).unsqueeze(-2).expand_as(squared_BHNN)
        log_psi_BHNN = causal(log_psi(squared_BHNN, declaration))
        vanished_BHN1 = log_psi_BHNN.isneginf().all(dim=-1, keepdim=True)
        log_weights_BHNN = torch.where(vanished_BHN1, log_weights_BHNN, log_psi_BHNN).log_softmax(dim=-1)
    return log_weights_BHNN


def prefix_squared_distances(gram_BHNN: Tensor, weights_BHNN: Tensor, formula: Formula) -> Tensor:
    """Return h^2 of each key j, (B, H, N, N), from the weighted mean of the keys 0..i; for j > i it has no meaning."""
    to_mean_BHNN = weights_BHNN @ gram_BHNN
    of_mean_BHN1 = (weights_BHNN * to_mean_BHNN).sum(dim=-1, keepdim=True)
    if formula == "released":
        return 1 + to_mean_BHNN + of_mean_BHN1
    return (1 - 2 * to_mean_BHNN + of_mean_BHN1).clamp(min=0)


def prefix_quotients(scores_BHNN: Tensor, log_joint_BHNN: Tensor, log_marginal_BHNN: Tensor) -> Tensor:
    """Return w_ij k(q_i - k_j) / sum_m u_im k(q_i - k_m), (B, H, N, N), from the logarithms; zero for j > i."""
    marginal_BHN1 = (log_marginal_BHNN + scores_BHNN).logsumexp(dim=-1, keepdim=True)
    return bounded(log_joint_BHNN + scores_BHNN - marginal_BHN1)
