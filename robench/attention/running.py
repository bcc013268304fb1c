"""Sums over each token and its past, for causal forms.

Axes as in ``heads``; L tokens of a chunk. Later tokens enter as exact zeros or not at all, so that nothing before a
token depends on it, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

# Tokens that meet pair by pair, F numbers a pair, between two steps of the recurrence.
CHUNK = 16


def running_mean(x_BHND: Tensor) -> Tensor:
    """Return the mean of each token and all before it, of the same shape (..., N, D)."""
    num_tokens = x_BHND.shape[-2]
    counts_N1 = torch.arange(1, num_tokens + 1, dtype=x_BHND.dtype, device=x_BHND.device).unsqueeze(-1)
    return running_sum(x_BHND) / counts_N1


def running_sum(x_BHND: Tensor) -> Tensor:
    """Return the sum of each token and all before it, of the same shape (..., N, D).

    A product with a triangular matrix, because cumulative sums are not deterministic on GPUs.
    """
    num_tokens = x_BHND.shape[-2]
    ones_NN = torch.ones(num_tokens, num_tokens, dtype=x_BHND.dtype, device=x_BHND.device).tril()
    return ones_NN @ x_BHND


def running_features(log_queries_BHNF: Tensor, log_keys_BHNF: Tensor, x_BHND: Tensor) -> Tensor:
    """Return A X, (B, H, N, D), with A the causal weights of attention with positive features.

    A_ij = phi(q_i) . phi(k_j) / sum_{j' <= i} phi(q_i) . phi(k_j') for j <= i, from the logarithms of the features, is

        P_if exp(log phi_f(k_j) - t_if),  t_if = log sum_{j <= i} phi_f(k_j),  P_if = softmax_f(log phi_f(q_i) + t_if)

    summed over f, where no exponential exceeds 1 and none is divided by. Tokens of a chunk meet pair by pair; what came
    before the chunk is one mean of X per feature, whose weight falls from chunk to chunk as exp(t) grows.
    """
    totals_BHNF = log_keys_BHNF.logcumsumexp(dim=-2)
    spread_BHNF = (log_queries_BHNF + totals_BHNF).softmax(dim=-1)
    parts = (each.split(CHUNK, dim=-2) for each in (spread_BHNF, log_keys_BHNF, totals_BHNF, x_BHND))
    mixed, last_BH1F, mean_BHFD = [], None, None
    for spread_BHLF, log_keys_BHLF, totals_BHLF, x_BHLD in zip(*parts, strict=True):
        mixed_BHLD = pairwise_weights(spread_BHLF, log_keys_BHLF, totals_BHLF) @ x_BHLD
        newest_BH1F = totals_BHLF[..., -1:, :]
        gathered_BHFD = (log_keys_BHLF - newest_BH1F).exp().transpose(-2, -1) @ x_BHLD
        if last_BH1F is not None and mean_BHFD is not None:
            mixed_BHLD = mixed_BHLD + (spread_BHLF * (last_BH1F - totals_BHLF).exp()) @ mean_BHFD
            gathered_BHFD = gathered_BHFD + (last_BH1F - newest_BH1F).exp().transpose(-2, -1) * mean_BHFD
        mixed.append(mixed_BHLD)
        last_BH1F, mean_BHFD = newest_BH1F, gathered_BHFD
    return torch.cat(mixed, dim=-2)


def pairwise_weights(spread_BHLF: Tensor, log_keys_BHLF: Tensor, totals_BHLF: Tensor) -> Tensor:
    """Return the weights of a chunk's tokens among each other, (B, H, L, L), zero for later ones."""
    size = log_keys_BHLF.shape[-2]
    is_later_LL = torch.ones(size, size, dtype=torch.bool, device=log_keys_BHLF.device).triu(1)
    logs_BHLLF = log_keys_BHLF.unsqueeze(-3) - totals_BHLF.unsqueeze(-2)
    # Masked before the exponential, which may overflow for later tokens.
    gather_BHLLF = logs_BHLLF.masked_fill(is_later_LL.unsqueeze(-1), -torch.inf).exp()
    return (spread_BHLF.unsqueeze(-2) * gather_BHLLF).sum(dim=-1)
