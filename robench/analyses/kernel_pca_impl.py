"""Self-attention as kernel PCA: projection error, and ratios that would be eigenvalues.

Source: Teo & Nguyen 2024, arXiv:2406.13762; symbols as in ``kernel_pca``. All is in float64, and kernels are computed
by their logarithms, since exp(q.q / sqrt(D)) and g overflow.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from robench.analyses.base import Pass
from robench.analyses.by_layer import by_layer, needed
from robench.analyses.kernel_pca import Eigenvectors, ProjectionError
from robench.attention.seen import Seen


def projection_error(declaration: ProjectionError, seen: Pass) -> Mapping[str, Tensor]:
    """Return J = mean_i (|phi(q_i)|^2 - |h_i|^2), (B, layers, heads), by the declared formula.

    * ``paper``, equation 13: |phi(q_i)|^2 = exp(q_i.q_i / sqrt(D)) / (sum_j exp(q_i.k_j / sqrt(D)))^2, and h_i is the
      output of the head.
    * ``released``, KPCA_code, Reconstruction/softmax.py: q and k have mean 0 and standard deviation 1 over each token's
      D numbers, and h_i is softmax attention of these. Of appendix C, which gets the denominator from the first column
      a_1 of the weights, the code omits sqrt(D) everywhere but in the weights:
      |phi(q_i)|^2 = exp(q_i.q_i - 2 q_i.k_1 + 2 ln a_1i). This depends on the first key, and q_i.q_i is always D - 1.
      The code's number is the mean over layers of ln J, J also over heads and the batch; no logarithm is taken here,
      since J may be negative.

    In a causal layer sums are over each query's own and earlier keys; the paper has none. J is infinite where float64
    ends, at |phi(q_i)|^2 above 1.8e308.
    """
    of = released_error if declaration.formula == "released" else printed_error
    return {"projection_error": by_layer(seen, of)}


def printed_error(layer: Seen) -> Tensor:
    """Return J of the paper, (B, H)."""
    q_BHND, root = needed(layer.queries_BHND), math.sqrt(needed(layer.queries_BHND).shape[-1])
    log_sums_BHN = visible_logits(layer, q_BHND, needed(layer.keys_BHMD)).logsumexp(dim=-1)
    squared_BHN = (q_BHND.square().sum(dim=-1) / root - 2 * log_sums_BHN).exp()
    return (squared_BHN - layer.heads_BHND.double().square().sum(dim=-1)).mean(dim=-1)


def released_error(layer: Seen) -> Tensor:
    """Return J of the released code, (B, H), without its logarithm."""
    q_BHND, k_BHMD = standardised(needed(layer.queries_BHND)), standardised(needed(layer.keys_BHMD))
    log_weights_BHNM = visible_logits(layer, q_BHND, k_BHMD).log_softmax(dim=-1)
    to_first_BHN = (q_BHND * k_BHMD[..., :1, :]).sum(dim=-1)
    squared_BHN = (q_BHND.square().sum(dim=-1) - 2 * to_first_BHN + 2 * log_weights_BHNM[..., 0]).exp()
    heads_BHND = log_weights_BHNM.exp() @ needed(layer.values_BHMD)
    return (squared_BHN - heads_BHND.square().sum(dim=-1)).mean(dim=-1)


def visible_logits(layer: Seen, q_BHND: Tensor, k_BHMD: Tensor) -> Tensor:
    """Return Q K^T / sqrt(D), (B, H, N, M), in a causal layer with minus infinity for keys after their query.

    A layer is taken as causal where no weight is above the diagonal.
    """
    logits_BHNM = q_BHND @ k_BHMD.transpose(-2, -1) / math.sqrt(q_BHND.shape[-1])
    weights_BHNM = layer.weights_BHNM
    if weights_BHNM is None or weights_BHNM.triu(1).any():
        return logits_BHNM
    return logits_BHNM.masked_fill(torch.ones_like(logits_BHNM, dtype=torch.bool).triu(1), -math.inf)


def standardised(x_BHND: Tensor) -> Tensor:
    """Return each token's numbers with mean 0 and standard deviation 1, its square over D - 1; equal ones become 0."""
    centred_BHND = x_BHND - x_BHND.mean(dim=-1, keepdim=True)
    deviation_BHN1 = (centred_BHND.square().sum(dim=-1, keepdim=True) / max(x_BHND.shape[-1] - 1, 1)).sqrt()
    return centred_BHND / deviation_BHN1.where(deviation_BHN1 > 0, 1.0)


def eigenvectors(declaration: Eigenvectors, seen: Pass) -> Mapping[str, Tensor]:
    """Return statistics of gamma_d = K a_d / (N a_d), elementwise, for each axis d of the values.

    K is the centred Gram matrix of remark 1, and a_d = (I - 1_N)^+ G^-1 V[:, d] with G = diag(1 / g(k_j)). The paper
    writes the inverse of I - 1_N, which is singular; here it is the pseudo-inverse, which is I - 1_N itself, so that
    a_d is g(k_j) V[j, d] without its mean over j. That is section 2.2.2, where V = G (I - 1_N) A; theorem 1 has
    V = (I - 1_N) G A. Where an entry of a_d is 0, that of gamma_d counts as 0. In a causal layer all keys count, since
    the paper has no causal form.

    Differences are |gamma_i - gamma_j| over the pairs i < j. The paper has the largest, smallest, mean and median size
    of D_v eigenvalues without saying how one of them follows from gamma_d: here it is the mean over i.
    """
    ratios_BLHND = by_layer(seen, ratios)
    mean_BLHD, deviation_BLHD = pair_differences(ratios_BLHND)
    sizes_BLHD = ratios_BLHND.mean(dim=-2).abs()
    return {
        "difference_mean": mean_BLHD,
        "difference_deviation": deviation_BLHD,
        "eigenvalue_max": sizes_BLHD.amax(dim=-1),
        "eigenvalue_min": sizes_BLHD.amin(dim=-1),
        "eigenvalue_mean": sizes_BLHD.mean(dim=-1),
        "eigenvalue_median": sizes_BLHD.quantile(0.5, dim=-1),
    }


def ratios(layer: Seen) -> Tensor:
    """Return gamma, (B, H, N, D)."""
    k_BHND, v_BHND = needed(layer.keys_BHMD), needed(layer.values_BHMD)
    logits_BHNN = k_BHND @ k_BHND.transpose(-2, -1) / math.sqrt(k_BHND.shape[-1])
    log_g_BHN1 = logits_BHNN.logsumexp(dim=-1, keepdim=True)
    gram_BHNN = (logits_BHNN - log_g_BHN1 - log_g_BHN1.transpose(-2, -1)).exp()
    # A factor of a_d leaves gamma_d as it is.
    a_BHND = centred((log_g_BHN1 - log_g_BHN1.amax(dim=-2, keepdim=True)).exp() * v_BHND)
    # a_d is centred already, so that the Gram matrix need be centred on the left alone.
    products_BHND = centred(gram_BHNN @ a_BHND)
    return torch.where(a_BHND == 0, 0.0, products_BHND / (a_BHND.shape[-2] * a_BHND))


def centred(x_BHND: Tensor) -> Tensor:
    """Return the tokens without their mean."""
    return x_BHND - x_BHND.mean(dim=-2, keepdim=True)


def pair_differences(x_BLHND: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of |x_i - x_j| over pairs of tokens, (B, L, H, D) each; 0 without pairs.

    In sorted order the differences add up to sum_i (2 i - N + 1) x_i, i from 0, and their squares to N sum_i x_i^2 of
    centred x: no matrix of pairs is needed.
    """
    num_tokens = x_BLHND.shape[-2]
    num_pairs = max(num_tokens * (num_tokens - 1) / 2, 1)
    sorted_BLHND = centred(x_BLHND).sort(dim=-2).values
    factors_N1 = (2 * torch.arange(num_tokens).to(x_BLHND) - num_tokens + 1).unsqueeze(-1)
    mean_BLHD = (factors_N1 * sorted_BLHND).sum(dim=-2) / num_pairs
    mean_square_BLHD = num_tokens * sorted_BLHND.square().sum(dim=-2) / num_pairs
    return mean_BLHD, (mean_square_BLHD - mean_BLHD.square()).clamp(min=0).sqrt()
