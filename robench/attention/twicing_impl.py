"""Twicing attention: the residual of smoothing by the weights A is smoothed and added again.

Source: Abdullaev & Nguyen 2025 (Transformer Meets Twicing), definition 2 and equation 19:

    H = A V + A (V - A V),  A = softmax(Q K^T / sqrt(D))

which equals (2 A - A A) V of equation 18 without the product of two N x N matrices. ``qkv`` is [3C, C], order q, k, v,
as in DeiT, whose weights it shares by name and shape.

The authors' vision code (models.py) is the same except for dropout on A, which is off here, and applies it in every
layer, the default of ``layers``. Their language code squares A, and in the last two of sixteen layers alone.

Causal form: A V + A (V - A V), with A the causal softmax weights.

Source: Abdullaev & Nguyen 2025 (Transformer Meets Twicing), equation 19, as in ``twicing``; 2 A - A A is lower
triangular where A is. The authors' language code squares A, and in the last two of sixteen layers alone, which is
``layers: [14, 15]``; their paper does not mention it.

Cost: that of softmax attention, and one more product of A with values.
"""

from torch import Tensor

from robench.attention.projected import DotAttention
from robench.attention.state import ForwardState


class TwicingAttention(DotAttention):
    """Twicing attention over tokens (B, N, C) -> (B, N, C); ``declaration.layers`` is read by the caller."""

    takes_masks = True

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        v_BHND, smoothing_BHNN = heads[2], super().weights(heads, state)
        smoothed_BHND = smoothing_BHNN @ v_BHND
        return smoothed_BHND + smoothing_BHNN @ (v_BHND - smoothed_BHND)

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return 2 A - A A, (B, H, N, N)."""
        smoothing_BHNN = super().weights(heads, state)
        return 2 * smoothing_BHNN - smoothing_BHNN @ smoothing_BHNN
