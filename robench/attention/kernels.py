"""Gaussian kernels of tokens, and normalisation of kernels to weights.

Axes as in ``heads``: B batch, H heads, N queries, M keys, D width of a head. Kernels that
are divided by their sum are kept as logarithms until then, since each of them may be too small for the number format.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from robench.attention.base import Formula


def precision_of(formula: Formula, head_dim: int) -> float:
    """Return c of the Gaussian kernel exp(-c |x - y|^2): 1 / (2 sqrt(D)) in the paper, 1 / sqrt(D) in released code."""
    return 1 / math.sqrt(head_dim) / (2 if formula == "paper" else 1)


def unit(x_BHND: Tensor) -> Tensor:
    """Return vectors of length 1; those shorter than 1e-12 are divided by 1e-12, so that zero stays zero."""
    return functional.normalize(x_BHND, dim=-1)


def gaussian_scores(q_BHND: Tensor, k_BHMD: Tensor, precision: float) -> Tensor:
    """Return ln exp(-c |q - k|^2), (B, H, N, M), without c |q|^2, which cancels in each row of weights."""
    squares_BH1M = k_BHMD.square().sum(dim=-1).unsqueeze(-2)
    return (2 * precision * q_BHND) @ k_BHMD.transpose(-2, -1) - precision * squares_BH1M


def gaussian_gram(x_BHMD: Tensor, precision: float) -> Tensor:
    """Return exp(-c |x_i - x_j|^2), of shape (B, H, M, M), with a diagonal of exactly 1."""
    scaled_BHMD = math.sqrt(2 * precision) * x_BHMD
    products_BHMM = scaled_BHMD @ scaled_BHMD.transpose(-2, -1)
    # The squares are taken from the products, so that the diagonal cancels exactly however large the vectors are.
    halves_BHM = products_BHMM.diagonal(dim1=-2, dim2=-1) / 2
    exponents_BHMM = products_BHMM - halves_BHM.unsqueeze(-1) - halves_BHM.unsqueeze(-2)
    return exponents_BHMM.clamp(max=0).exp()


def gaussian_kernels(q_BHND: Tensor, k_BHMD: Tensor, precision: float) -> Tensor:
    """Return exp(-c |q - k|^2), of shape (B, H, N, M), at most 1."""
    squares_BHN1 = q_BHND.square().sum(dim=-1, keepdim=True)
    scores_BHNM = gaussian_scores(q_BHND, k_BHMD, precision) - precision * squares_BHN1
    return scores_BHNM.clamp(max=0).exp()


def weights_above(log_kernels_BHNM: Tensor, floor: float) -> Tensor:
    """Return kernels divided by their row's sum plus ``floor``, of the same shape; rows of tiny kernels give zero."""
    floor_BHN1 = torch.full_like(log_kernels_BHNM[..., :1], math.log(floor))
    weights_BHNM: Tensor = torch.cat([log_kernels_BHNM, floor_BHN1], dim=-1).softmax(dim=-1)
    return weights_BHNM[..., :-1]
