"""Twicing over linear attention: the residual of smoothing by A is smoothed and added again, (2A - A^2) V.

Source: Abdullaev & Nguyen 2025 (Twicing Attention), appendix B.1, "Non-conventional attention mechanisms", with A the
normalised weights of linear attention, phi(x) = elu(x) + 1 (see ``linear``). Computed as

    H = A V + A (V - A V)

so that neither A nor its square is formed: each product with A goes through its two factors, and the cost stays linear
in the number of tokens. According to the paper, its own experiments construct A; the results agree up to rounding. The
released code has no twicing in its linear attention, so there is no other definition. Weights are those of ``linear``.

Causal form: A V + A (V - A V), with A the weights of causal linear attention.

Source: Abdullaev & Nguyen 2025 (Twicing Attention), appendix B.1 and table 8, with A that of the causal form of
``linear``; the paper's language models construct A, and no code of them is published.

Cost: twice that of causal linear attention.
"""

from torch import Tensor

from robench.attention.linear_impl import log_feature, smoother
from robench.attention.projected import ProjectedAttention
from robench.attention.state import ForwardState


class LinearTwicingAttention(ProjectedAttention):
    """Twicing over linear attention, tokens (B, N, C) -> (B, N, C)."""

    takes_masks = True

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        smooth = smoother(log_feature(q_BHND), log_feature(k_BHND), state, is_causal=self.is_causal)
        smoothed_BHND = smooth(v_BHND)
        return smoothed_BHND + smooth(v_BHND - smoothed_BHND)
