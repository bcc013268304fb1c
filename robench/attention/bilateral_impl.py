"""Bilateral attention: the sum of logits of contents and logits of positions, through the same W.

Source: the Bilateral/Boost paper, arXiv:2506.10371, equation 24: weights proportional to

    exp(p_i^T W p_j / h_p^2 + y_i^T W y_j / h_y^2),  W = W_Q^T W_K

so that the terms between a content and a position, which softmax attention over y + p has, are gone. Without p it is
the paper's Nonlocal attention (``none``); with -m_h |i - j| in place of p_i^T W p_j, ALiBi (remark 3.4).

There is no released code. Where the paper is silent or contradicts itself:

* p. For ``learned`` it is the backbone's own ``pos_embed``, class token included, handed on in the state: the paper's
  model has no weights beyond DeiT's, and DeiT's vectors of positions are learned. They enter W as they are, without a
  LayerNorm, and gradients flow into them. ``sinusoid`` is equation 5 over the token index.
* W. Vectors of positions pass through ``qkv``, bias included, as contents do; the values are dropped. Table 5 counts so
  (1.33 GMac for DeiT-tiny while training; projecting to queries and keys alone would be 1.25).
* The input. Attention alone is replaced, as section 5.3 says: the backbone still adds p to its first tokens, though the
  text after equation 24 would have the two side by side instead.
* h^2. The paper puts h_p^2 = h_y^2 = 2 sqrt(d) for standard attention, twice the sqrt(d) that is in use; the default is
  sqrt(D), so that Nonlocal is softmax attention. ALiBi's logits are not divided by h_p^2, or remark 3.4 would not
  recover ALiBi.

Positional logits are the same for all examples and computed once per pass. Outside training mode, and without gradients
for ``qkv`` or p, they are cached until one of these changes (table 5, 1.08 GMac at inference); switching modes clears
the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from torch import Tensor

from robench.attention.heads import split_heads
from robench.attention.kept import Kept
from robench.attention.positions import falling_logits, sinusoids
from robench.attention.projected import ProjectedAttention
from robench.core.errors import ContractError

if TYPE_CHECKING:
    from robench.attention.bilateral import Bilateral
    from robench.attention.geometry import Geometry
    from robench.attention.state import ForwardState


class BilateralAttention(ProjectedAttention):
    """Bilateral attention over tokens (B, N, C) -> (B, N, C); with learned positions it needs those of the state."""

    def __init__(self, declaration: Bilateral, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.positions = declaration.positions
        self.content_bandwidth = declaration.content_bandwidth or geometry.head_dim**0.5
        self.position_bandwidth = declaration.position_bandwidth or geometry.head_dim**0.5
        self._kept = Kept()

    def train(self, mode: bool = True) -> Self:
        """Switch to training mode (with False to evaluation mode), and clear the cache."""
        self._kept.forget()
        return super().train(mode)

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return self.scores(q_BHND, k_BHND, state).softmax(dim=-1) @ v_BHND

    def scores(self, q_BHND: Tensor, k_BHND: Tensor, state: ForwardState | None) -> Tensor:
        """Return the logits of contents and positions, (B, H, N, N).

        Raises:
            ContractError: positions are learned, and the state has none.
        """
        scores_BHNN = (q_BHND / self.content_bandwidth) @ k_BHND.transpose(-2, -1)
        if self.positions == "alibi":
            scores_BHNN = scores_BHNN + falling_logits(self.num_heads, q_BHND.shape[-2], like=scores_BHNN)
        elif self.positions != "none":
            scores_BHNN = scores_BHNN + self.position_scores(scores_BHNN, state)
        return scores_BHNN

    def position_scores(self, scores_BHNN: Tensor, state: ForwardState | None) -> Tensor:
        """Return the logits of positions, (H, N, N), to be added to those of contents."""
        num_tokens = scores_BHNN.shape[-1]
        learned = (self.learned(state, num_tokens),) if self.positions == "learned" else ()

        def compute() -> Tensor:
            weight = self.qkv.weight
            positions_NC = learned[0] if learned else sinusoids(num_tokens, weight.shape[1], like=weight)
            q_BHND, k_BHND, _ = split_heads(self.qkv(positions_NC[None]), self.num_heads, num_projections=3)
            return (q_BHND[0] / self.position_bandwidth) @ k_BHND[0].transpose(-2, -1)

        if self.training:
            return compute()
        # The dtype, because that of the result depends on autocast too.
        return self._kept.get((self.qkv.weight, self.qkv.bias, *learned), (num_tokens, scores_BHNN.dtype), compute)

    def learned(self, state: ForwardState | None, num_tokens: int) -> Tensor:
        """Return the backbone's vectors of positions, (N, C)."""
        return learned_positions(state)


def learned_positions(state: ForwardState | None) -> Tensor:
    """Return the backbone's own vectors of positions, (N, C).

    Raises:
        ContractError: the state has none.
    """
    if state is None or state.positions_NC is None:
        raise ContractError(
            "bilateral attention with learned positions got none: the backbone has to hand on its own in the state; "
            "where it has none, choose positions sinusoid, alibi or none"
        )
    return state.positions_NC
