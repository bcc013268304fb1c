"""Building blocks of mechanisms: splitting and merging heads, dot-product attention, and sums over the past.

Axes: B batch, N tokens, C width of a token, H heads, D width of a head (C = H D), M the tokens that are attended to,
P projections (such as query, key and value) times C, F features of a query or key.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def split_heads(projected_BNP: Tensor, num_heads: int, num_projections: int) -> tuple[Tensor, ...]:
    """Return the projections as (B, H, N, D) tensors, in their order of concatenation."""
    B, N, P = projected_BNP.shape
    parts_PBHND = projected_BNP.reshape(B, N, num_projections, num_heads, P // (num_projections * num_heads))
    return parts_PBHND.permute(2, 0, 3, 1, 4).unbind(0)


def merge_heads(x_BHND: Tensor) -> Tensor:
    """Concatenate the heads of each token, (B, N, C)."""
    B, H, N, D = x_BHND.shape
    return x_BHND.transpose(1, 2).reshape(B, N, H * D)


def dot_scores(q_BHND: Tensor, k_BHMD: Tensor) -> Tensor:
    """Return Q K^T / sqrt(D), of shape (B, H, N, M).

    Written out, and in the order of timm's unfused path, because fused kernels round differently from device to device
    and some have gradients that change from run to run.
    """
    scores_BHNM: Tensor = (q_BHND * q_BHND.shape[-1] ** -0.5) @ k_BHMD.transpose(-2, -1)
    return scores_BHNM


def attend(q_BHND: Tensor, k_BHMD: Tensor, v_BHMD: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(D)) V, of shape (B, H, N, D); Vaswani et al. 2017, equation 1."""
    if torch.compiler.is_compiling():
        # Passes that round otherwise, and are recorded as such: ``models/precision.py``.
        return scaled_dot_product_attention(q_BHND, k_BHMD, v_BHMD)
    weights_BHNM: Tensor = dot_scores(q_BHND, k_BHMD).softmax(dim=-1)
    return weights_BHNM @ v_BHMD


def without_padding_keys(scores_BHNM: Tensor, mask_BM: Tensor) -> Tensor:
    """Return the scores with minus infinity for keys that are padding, where the mask is false."""
    return scores_BHNM.masked_fill(~mask_BM[:, None, None, :], -torch.inf)


def causal(scores_BHNN: Tensor) -> Tensor:
    """Return the scores of each query with minus infinity for keys after it."""
    num_tokens = scores_BHNN.shape[-1]
    is_later_NN = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=scores_BHNN.device).triu(1)
    return scores_BHNN.masked_fill(is_later_NN, -torch.inf)


def causal_attend(q_BHND: Tensor, k_BHND: Tensor, v_BHND: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(D)) V over each query's own and earlier keys, (B, H, N, D)."""
    weights_BHNN: Tensor = causal(dot_scores(q_BHND, k_BHND)).softmax(dim=-1)
    return weights_BHNN @ v_BHND


def running_mean(x_BHND: Tensor) -> Tensor:
    """Return the mean of each token and all before it, of the same shape (..., N, D); see ``running_sum``."""
    num_tokens = x_BHND.shape[-2]
    counts_N1 = torch.arange(1, num_tokens + 1, dtype=x_BHND.dtype, device=x_BHND.device).unsqueeze(-1)
    return running_sum(x_BHND) / counts_N1


def running_sum(x_BHND: Tensor) -> Tensor:
    """Return the sum of each token and all before it, of the same shape (..., N, D).

    A product with a triangular matrix, because cumulative sums are not deterministic on GPUs. Later tokens enter as
    exact zeros, so that nothing before a token depends on it, bit for bit.
    """
    num_tokens = x_BHND.shape[-2]
    ones_NN = torch.ones(num_tokens, num_tokens, dtype=x_BHND.dtype, device=x_BHND.device).tril()
    return ones_NN @ x_BHND
