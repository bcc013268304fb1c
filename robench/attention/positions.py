"""Fixed positional encodings for mechanisms that add positional logits.

Sources: ALiBi, Press et al. 2022, arXiv:2108.12409; sinusoids, Vaswani et al. 2017, section 3.5. A token's position is
its index in the sequence, 0 for the class token; rows of patches follow one another.
"""

from __future__ import annotations

import torch
from torch import Tensor


def falling_logits(num_heads: int, num_tokens: int, like: Tensor) -> Tensor:
    """Return -slope_h |i - j|, of shape (H, N, N), with the dtype and device of ``like``.

    The slopes are 2^(-8 h / H), h = 1..H, for any number of heads. This follows the ALiBi paper; its code does so for
    powers of two only, and otherwise picks slopes of the next one.
    """
    heads_H = torch.arange(1, num_heads + 1, dtype=like.dtype, device=like.device)
    places_N = torch.arange(num_tokens, dtype=like.dtype, device=like.device)
    distances_NN = (places_N[:, None] - places_N[None, :]).abs()
    slopes_H11 = torch.exp2(-8 * heads_H / num_heads)[:, None, None]
    return -slopes_H11 * distances_NN


def sinusoids(num_tokens: int, width: int, like: Tensor) -> Tensor:
    """Return sin(i / T^(2t/C)) in column 2t and cos(i / T^(2t/C)) in column 2t + 1, T = 10000, of shape (N, C)."""
    places_N1 = torch.arange(num_tokens, dtype=like.dtype, device=like.device)[:, None]
    columns_C = torch.arange(width, device=like.device)
    even_C = (columns_C - columns_C % 2).to(like.dtype)
    angles_NC = places_N1 * 10_000 ** (-even_C / width)
    return torch.where(columns_C % 2 == 0, angles_NC.sin(), angles_NC.cos())
