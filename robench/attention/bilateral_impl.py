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

Causal form: logits of contents and of positions, over each token's own and earlier keys.

Source: the Bilateral/Boost paper, arXiv:2506.10371, equation 24, ``bilateral`` masked. The paper does not
say which positions its language model has (section 5.1). Learned positions are the first N vectors of the backbone's.

Cost: that of softmax attention, and the logits of positions, which are kept while the parameters stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor

from robench.attention.alibi_impl import falling_logits
from robench.attention.bilateral import Bilateral
from robench.attention.geometry import Geometry
from robench.attention.heads import split_heads
from robench.attention.projected import ProjectedAttention, WeightedAttention
from robench.attention.state import ForwardState
from robench.core.errors import ContractError


class BilateralAttention(WeightedAttention):
    """Bilateral attention over tokens (B, N, C) -> (B, N, C); with learned positions it needs those of the state."""

    takes_masks = True

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

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, N)."""
        return self.masked(self.scores(heads[0], heads[1], state), state).softmax(dim=-1)

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
        """Return the backbone's vectors of positions, (N, C), in a causal form those of the first tokens.

        Raises:
            ContractError: the state has none.
        """
        positions_NC = learned_positions(state)
        return positions_NC[:num_tokens] if self.is_causal else positions_NC


def learned_positions(state: ForwardState | None) -> Tensor:
    """Return the backbone's vectors of positions, (N, C). Raises ContractError: the state has none."""
    if state is None or state.positions_NC is None:
        raise ContractError(
            "attention with learned positions got none: the backbone has to hand on its own in the state; where it has"
            " none, choose other positions, such as alibi or none"
        )
    return state.positions_NC


def projected_positions(attention: ProjectedAttention, state: ForwardState | None) -> tuple[Tensor, Tensor]:
    """Return queries and keys of the backbone's vectors of positions through ``qkv``, (H, N, D) each."""
    projected_1NP = attention.qkv(learned_positions(state)[None])
    q_1HND, k_1HND, _ = split_heads(projected_1NP, attention.num_heads, num_projections=3)
    return q_1HND[0], k_1HND[0]


def sinusoids(num_tokens: int, width: int, like: Tensor) -> Tensor:
    """Return sin(i / T^(2t/C)) in column 2t and cos(i / T^(2t/C)) in column 2t + 1, T = 10000, of shape (N, C).

    Vaswani et al. 2017, section 3.5. A position is the index of a token, 0 for the class token.
    """
    places_N1 = torch.arange(num_tokens, dtype=like.dtype, device=like.device)[:, None]
    columns_C = torch.arange(width, device=like.device)
    even_C = (columns_C - columns_C % 2).to(like.dtype)
    angles_NC = places_N1 * 10_000 ** (-even_C / width)
    return torch.where(columns_C % 2 == 0, angles_NC.sin(), angles_NC.cos())


class Held(NamedTuple):
    """Cached result and the fingerprints it depends on."""

    result: Tensor
    traces: tuple[object, ...]
    setting: object
    parameters: tuple[Tensor, ...]


class Kept:
    """Cache of a result that depends on parameters alone, valid until one of them changes; copies of it are empty.

    Changes are detected by address, layout and the version counter that torch increments with every write. The memory
    is held as long as the result, so that no new tensor can reuse the address. Writes through ``tensor.data`` are not
    counted: callers that make them must call ``forget``.
    """

    def __init__(self) -> None:
        self._held: Held | None = None

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()

    def forget(self) -> None:
        """Clear the cache."""
        self._held = None

    def get(self, parameters: tuple[Tensor, ...], setting: object, compute: Callable[[], Tensor]) -> Tensor:
        """Return ``compute()``, from the cache if it was called for the same parameters and setting before.

        Nothing is cached if gradients may flow to the parameters. ``setting`` contains everything else that determines
        the result.
        """
        gradients_flow = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        # Tensors made in inference mode have no version.
        if gradients_flow or any(parameter.is_inference() for parameter in parameters):
            return compute()
        traces = tuple(trace_of(parameter) for parameter in parameters)
        held = self._held
        if held is None or (held.traces, held.setting) != (traces, setting):
            # A result made in inference mode could not be used under gradients later.
            with torch.inference_mode(False), torch.no_grad():
                held = Held(compute(), traces, setting, tuple(parameter.detach() for parameter in parameters))
            self._held = held
        return held.result


def trace_of(tensor: Tensor) -> tuple[object, ...]:
    """Return the current fingerprint of a tensor, which changes with its numbers while its memory is held."""
    return (tensor.data_ptr(), tensor._version, tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
