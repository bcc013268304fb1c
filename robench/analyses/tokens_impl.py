"""Cosine similarity of tokens between blocks."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import normalize

from robench.analyses.base import Pass
from robench.analyses.tokens import TokenSimilarity


def token_similarity(declaration: TokenSimilarity, seen: Pass) -> Mapping[str, Tensor]:
    """Return the mean cosine similarity over pairs of tokens that enter the first and leave each block, (B, 1 + L)."""
    first = 0 if declaration.special else seen.layout.num_special
    return {"similarity": torch.stack([similarity(tokens_BNC[:, first:]) for tokens_BNC in seen.tokens_BNC], dim=1)}


def similarity(x_BNC: Tensor) -> Tensor:
    """Return the mean over N (N - 1) / 2 pairs, (B,); a token of zeros is like none, and a single token has no pair.

    With u the tokens of length 1, the sum over pairs is (|sum_i u_i|^2 - sum_i |u_i|^2) / 2.
    """
    u_BNC = normalize(x_BNC.double(), dim=-1, eps=torch.finfo(torch.float64).tiny)
    num_tokens = u_BNC.shape[1]
    both_B = u_BNC.sum(dim=1).square().sum(dim=-1) - u_BNC.square().sum(dim=(1, 2))
    return both_B / max(num_tokens * (num_tokens - 1), 1)
