"""ALiBi: softmax attention whose logits fall linearly with distance, by a fixed slope for each head.

Source: Press et al. 2022, arXiv:2108.12409, section 3:

    H = softmax(Q K^T / sqrt(D) - m_h |i - j|) V,  m_h = 2^(-8 h / H), h = 1..H

Nothing is learned beyond ``qkv`` and ``proj``. The paper's attention is causal, so that its distance is i - j; for
tokens that see both sides it becomes |i - j|, the form used for comparison in the Bilateral paper (remark 3.4). The
distance runs over the token index, from patch to patch and row to row, class token included: neither paper mentions two
dimensions. Paper and code differ in the slopes where the number of heads is not a power of two; see ``falling_logits``.

Causal form: logits fall linearly with the distance i - j to earlier tokens, by a fixed slope for each head.

Source: Press et al. 2022, arXiv:2108.12409, section 3, whose attention is causal. Slopes are those of ``alibi``.

Cost: that of softmax attention.
"""

import torch
from torch import Tensor

from robench.attention.heads import dot_scores
from robench.attention.projected import WeightedAttention
from robench.attention.state import ForwardState


class AlibiAttention(WeightedAttention):
    """ALiBi attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        q_BHND, k_BHND, _ = heads
        scores_BHNN = dot_scores(q_BHND, k_BHND) + falling_logits(self.num_heads, q_BHND.shape[-2], like=q_BHND)
        return self.masked(scores_BHNN, state).softmax(dim=-1)


def falling_logits(num_heads: int, num_tokens: int, like: Tensor) -> Tensor:
    """Return -slope_h |i - j|, of shape (H, N, N), with the dtype and device of ``like``.

    The slopes are 2^(-8 h / H), h = 1..H, for any number of heads. This follows the ALiBi paper; its code does so for
    powers of two only, and otherwise picks slopes of the next one.
    """
    places_N = torch.arange(num_tokens, dtype=like.dtype, device=like.device)
    distances_NN = (places_N[:, None] - places_N[None, :]).abs()
    return -slopes_of(num_heads, like=like) * distances_NN


def slopes_of(num_heads: int, like: Tensor) -> Tensor:
    """Return m_h of each head, (H, 1, 1), with the dtype and device of ``like``."""
    heads_H = torch.arange(1, num_heads + 1, dtype=like.dtype, device=like.device)
    return torch.exp2(-8 * heads_H / num_heads)[:, None, None]
