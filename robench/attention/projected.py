"""Common base of most mechanisms: tokens projected into heads, a mechanism over the heads, and an output projection.

Parameters are named as in timm and DeiT: ``qkv``, [3C, C] with bias, order q, k, v, and ``proj``, [C, C] with bias. In
a backbone with separate queries (FAN) ``qkv`` is two, ``q`` [C, C] and ``kv`` [2C, C]; a mechanism without separate
queries then has ``kv`` alone.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from robench.attention.geometry import Geometry
from robench.attention.heads import (
    attend,
    causal,
    causal_attend,
    dot_scores,
    merge_heads,
    split_heads,
    without_padding_keys,
)
from robench.attention.seen import Seen, aside
from robench.attention.state import ForwardState, by_length
from robench.declarations.base import DeclarationBase


class ProjectedAttention(nn.Module, ABC):
    """Attention over tokens (B, N, C) -> (B, N, C); subclasses define the mixing of each head.

    Attributes:
        is_causal: whether the output of a token must depend on it and earlier ones alone; ``attend`` and ``masked`` do
            so.
        takes_masks: whether ``mix`` leaves out the padding of a state's ``mask_BN``. Others mix the examples of each of
            the state's ``lengths`` on their own.
        mixes_by_length: whether ``forward`` sees to this; a block does for other modules.
        shared: names of parameters that all layers of a model have in common.
        gradient_modes: gradients other than its own that it offers; ``gradient_mode``: those of the next pass.
    """

    takes_masks = False
    mixes_by_length = True
    shared: tuple[str, ...] = ()
    gradient_modes: tuple[str, ...] = ()
    gradient_mode = "own"

    def __init__(self, declaration: DeclarationBase, geometry: Geometry, num_projections: int = 3) -> None:
        super().__init__()
        self.num_heads = geometry.num_heads
        self.is_causal = geometry.is_causal
        self.num_projections = num_projections
        if geometry.separate_queries:
            self.q = nn.Linear(geometry.dim, geometry.dim) if num_projections > 2 else None
            self.kv = nn.Linear(geometry.dim, 2 * geometry.dim)
        else:
            self.qkv = nn.Linear(geometry.dim, num_projections * geometry.dim)
        self.separate_queries = geometry.separate_queries
        self.proj = nn.Linear(geometry.dim, geometry.dim)

    @abstractmethod
    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D) from the projections (B, H, N, D), such as queries, keys and values, in this order."""

    def attend(self, q_BHND: Tensor, k_BHMD: Tensor, v_BHMD: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return softmax attention, (B, H, N, D), over the keys that ``masked`` leaves."""
        if state is not None and state.mask_BN is not None:
            return self.masked(dot_scores(q_BHND, k_BHMD), state).softmax(dim=-1) @ v_BHMD
        return causal_attend(q_BHND, k_BHMD, v_BHMD) if self.is_causal else attend(q_BHND, k_BHMD, v_BHMD)

    def masked(self, scores_BHNN: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return the scores, with minus infinity for padding and, in a causal form, for keys after their query."""
        if state is not None and state.mask_BN is not None:
            scores_BHNN = without_padding_keys(scores_BHNN, state.mask_BN)
        return causal(scores_BHNN) if self.is_causal else scores_BHNN

    def forward(self, x_BNC: Tensor, state: ForwardState | None = None) -> Tensor:
        """Return (B, N, C)."""
        heads = self.project(x_BNC)
        if state is not None and state.shown is not None:
            state.shown.heads = heads
        mixed_BHND = self.mix(heads, state) if self.takes_masks else by_length(self.mix, heads, state)
        mixed_BNC: Tensor = self.proj(merge_heads(mixed_BHND))
        return mixed_BNC

    def project(self, x_BNC: Tensor) -> tuple[Tensor, ...]:
        """Return the tokens' projections, (B, H, N, D) each."""
        if not self.separate_queries:
            return split_heads(self.qkv(x_BNC), self.num_heads, self.num_projections)
        keys_and_values = split_heads(self.kv(x_BNC), self.num_heads, 2)
        if self.q is None:
            return keys_and_values
        return (*split_heads(self.q(x_BNC), self.num_heads, 1), *keys_and_values)

    def seen(self, x_BNC: Tensor, state: ForwardState | None = None) -> Seen:
        """Return the tensors that a forward pass with the same arguments computes; the state stays as it is."""
        heads = self.project(x_BNC)
        values_BHMD = heads[-1]
        return Seen(
            heads_BHND=self.mix(heads, aside(state)),
            queries_BHND=heads[0],
            keys_BHMD=heads[-2] if self.num_projections <= 3 else None,
            values_BHMD=values_BHMD,
            weights_BHNM=self.weights(heads, aside(state)),
            rest_BHND=self.rest(values_BHMD, aside(state)),
        )

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return the weights of the values, (B, H, N, M), from the projections.

        Here they are the mixture of the identity in place of the values, which is right if ``mix`` is linear in them. A
        mechanism whose weights depend on its values overrides this.
        """
        return self.mix((*heads[:-1], identity_like(heads[-1])), state)

    def rest(self, values_BHMD: Tensor, state: ForwardState | None) -> Tensor | None:
        """Return the part of the mixture that is not from this layer's values, (B, H, N, D); None without one."""
        return None


class WeightedAttention(ProjectedAttention):
    """Attention whose mixture is a matrix of weights times the values; subclasses define the weights."""

    @abstractmethod
    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return the weights of the values, (B, H, N, M), from the projections."""

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        weights_BHNM = self.weights(heads, state)
        if state is not None and state.shown is not None:
            state.shown.weights_BHNM = weights_BHNM
        return weights_BHNM @ heads[-1]


class DotAttention(WeightedAttention):
    """Attention whose weights are a softmax of products; subclasses may change the queries and keys first."""

    def compared(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> tuple[Tensor, Tensor]:
        """Return the queries and keys whose products are taken, (B, H, N, D) each, from the projections."""
        return heads[0], heads[-2]

    def weights(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return softmax(Q K^T / sqrt(D)) of the compared queries and keys, (B, H, N, M)."""
        scores_BHNM = dot_scores(*self.compared(heads, state))
        return self.masked(scores_BHNM, state if self.takes_masks else None).softmax(dim=-1)

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D)."""
        if torch.compiler.is_compiling():
            # Fused, without a matrix of weights.
            return self.attend(*self.compared(heads, state), heads[-1], state if self.takes_masks else None)
        return super().mix(heads, state)


def identity_like(values_BHMD: Tensor) -> Tensor:
    """Return the identity as values, (B, H, M, M)."""
    B, H, M, _ = values_BHMD.shape
    return torch.eye(M, dtype=values_BHMD.dtype, device=values_BHMD.device).expand(B, H, M, M)
