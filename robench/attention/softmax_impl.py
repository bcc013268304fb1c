"""Scaled dot-product attention: H = softmax(Q K^T / sqrt(D)) V.

Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1; parameters as in timm and DeiT (``qkv`` is [3C, C], order
q, k, v, with bias). Nothing differs: in float64 it agrees with timm's unfused path bit by bit.

Causal form: the softmax of each query is over its own and earlier keys.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3.

Cost: that of softmax attention, the scores of later keys included.
"""

from robench.attention.projected import DotAttention


class SoftmaxAttention(DotAttention):
    """Softmax attention over tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True
