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

Causal form: the sums over keys are over each query's own and earlier ones.

Source: Katharopoulos et al. 2020, arXiv:2006.16236, section 3.3 (equations 8 to 12), with phi(x) = elu(x) + 1 and
neither a scale nor an epsilon, as in ``linear``. Features are kept as logarithms and running sums as means (see
``running_features``), so that nothing overflows or is divided by zero in float32.

The features of keys that are padding are zero. In the causal form, whose padding comes after all valid tokens, no valid
query sees it.

Cost: O(N D (L + D)) operations, L = 16 tokens a chunk, where softmax attention has O(N^2 D); N L D numbers in memory.
The N / L chunks follow one another.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState

# Tokens that meet pair by pair, F numbers a pair, between two steps of the recurrence.
CHUNK = 16


class LinearAttention(ProjectedAttention):
    """Linear attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return smoother(log_feature(q_BHND), log_feature(k_BHND), state, is_causal=self.is_causal)(v_BHND)


def log_feature(x: Tensor) -> Tensor:
    """Return log(elu(x) + 1) of each entry: log(1 + x) above zero, x below."""
    # relu, because where() hands the gradient of both branches on, and that of log1p is infinite at -1.
    return torch.where(x > 0, x.relu().log1p(), x)


def smoother(
    log_queries_BHNF: Tensor, log_keys_BHNF: Tensor, state: ForwardState | None, *, is_causal: bool
) -> Callable[[Tensor], Tensor]:
    """Return the function X -> A X, (B, H, N, D), with A the weights of attention with positive features.

    Features are given by their logarithms. A has no weights for the state's padding and, with ``is_causal``, none for
    later tokens.
    """
    if is_causal:
        return partial(running_features, log_queries_BHNF, log_keys_BHNF)
    log_keys_BHNF = without_padding(log_keys_BHNF, state)
    spread_BHNF, gather_BHFN = feature_factors(log_queries_BHNF, log_keys_BHNF)
    return lambda x_BHND: spread_BHNF @ (gather_BHFN @ x_BHND)


def without_padding(log_keys_BHNF: Tensor, state: ForwardState | None) -> Tensor:
    """Return the logarithms of the features of keys, minus infinity for the state's padding."""
    if state is None or state.mask_BN is None:
        return log_keys_BHNF
    return log_keys_BHNF.masked_fill(~state.mask_BN[:, None, :, None], -torch.inf)


def feature_factors(log_queries_BHNF: Tensor, log_keys_BHMF: Tensor) -> tuple[Tensor, Tensor]:
    """Return P (B, H, N, F) and S (B, H, F, M) with P S = A, the weights of attention with positive features.

    A_ij = phi(q_i) . phi(k_j) / sum_j' phi(q_i) . phi(k_j'), whose factors, from the logarithms of the features, are

        S_fj = softmax_j(log phi_f(k_j)),  P_if = softmax_f(log phi_f(q_i) + log sum_j phi_f(k_j))

    so that nothing is divided by a sum of features, and (P (S V)) takes O(N F) memory where A would take O(N M).
    """
    totals_BH1F = log_keys_BHMF.logsumexp(dim=-2, keepdim=True)
    gather_BHFM = log_keys_BHMF.softmax(dim=-2).transpose(-2, -1)
    return (log_queries_BHNF + totals_BH1F).softmax(dim=-1), gather_BHFM


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
