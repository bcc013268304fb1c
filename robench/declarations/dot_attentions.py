"""Attention mechanisms that change the scores, the weights or the values of softmax attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.declarations.attention_base import AttentionBase
from robench.declarations.base import LARGEST

Formula = Literal["paper", "released"]
Layers = Literal["all"] | tuple[int, ...]
DEFAULT_DELTA = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcAsymmetric(AttentionBase):
    """RPC-Attention with queries of its own: softmax(Q (K - S - Y/mu)^T / sqrt(d)) V, appendix E.10 of the RPC paper.

    Attributes: as of ``rpc``.
    """

    kind: ClassVar[str] = "rpc-asymmetric"

    num_iterations: Annotated[int, Ge(1), Le(1000)] = 4
    sparsity: Annotated[float, Ge(0), Le(LARGEST)] = 4.0
    layers: Layers = (0,)
    elsewhere: Literal["softmax", "symmetric"] = "softmax"
    formula: Formula = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(AttentionBase):
    """Scaled attention of the RPC paper: softmax(Q K^T / sqrt(d)) (I - S) V with a learned S, zero at start.

    Attributes:
        parameterization: S is a matrix for each head (``matrix``), or s softmax(K K^T / sqrt(d)) (``scalar``).
    """

    kind: ClassVar[str] = "scaled"

    parameterization: Literal["matrix", "scalar"] = "matrix"

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return num_heads * num_tokens**2 if self.parameterization == "matrix" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bilateral(AttentionBase):
    """Bilateral attention: logits of contents and logits of positions, through the same W_Q and W_K, are added.

    Attributes:
        content_bandwidth, position_bandwidth: h^2 of the paper, by which logits are divided; None for sqrt(d).
        positions: what stands for a token's place: the backbone's learned vectors, sinusoids, ALiBi's distances in
            place of the positional logits, or nothing (``none``, the paper's Nonlocal attention).
    """

    kind: ClassVar[str] = "bilateral"

    content_bandwidth: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    position_bandwidth: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    positions: Literal["learned", "sinusoid", "alibi", "none"] = "learned"

    def contradictions(self) -> list[str]:
        """Without vectors of positions there is nothing for their bandwidth to divide."""
        if self.position_bandwidth is None or self.positions in ("learned", "sinusoid"):
            return []
        return [f"position_bandwidth has no effect with positions {self.positions}, got {self.position_bandwidth}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alibi(AttentionBase):
    """Softmax attention whose logits fall linearly with distance, by a fixed slope for each head."""

    kind: ClassVar[str] = "alibi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Twicing(AttentionBase):
    """Twicing attention: A V + A (V - A V) with A the softmax weights, so that what smoothing lost is added again.

    Attributes:
        layers: 0-based layers that do so, or ``all``; ``elsewhere``: mechanism of the other layers.
    """

    kind: ClassVar[str] = "twicing"

    layers: Layers = "all"
    elsewhere: Literal["softmax"] = "softmax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neutreno(AttentionBase):
    """NeuTRENO: A V + alpha (V0 - V) with V0 the values of layer 0; softmax attention in layer 0 itself.

    Attributes:
        alpha: how far the values are drawn towards those of layer 0; 0 is softmax attention.
    """

    kind: ClassVar[str] = "neutreno"

    alpha: Annotated[float, Ge(0), Le(LARGEST)] = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class AttnScale(AttentionBase):
    """AttnScale: the part of the softmax weights above their mean is scaled by 1 + lambda, learned for each head."""

    kind: ClassVar[str] = "attnscale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elliptical(AttentionBase):
    """Elliptical attention: coordinates along which attention changes much weigh more in the scores.

    Attributes:
        delta: step between layers, by which the change is divided; it cancels, since the largest change counts as 1.
        estimator: the change is that of the values since the layer before (``over_layers``), or that of the layer's
            own output when each coordinate of its queries is moved (``finite_differences``).
    """

    kind: ClassVar[str] = "elliptical"

    delta: Annotated[float, Gt(0), Le(LARGEST)] = DEFAULT_DELTA
    estimator: Literal["over_layers", "finite_differences"] = "over_layers"

    def contradictions(self) -> list[str]:
        """Finite differences have a step of their own."""
        if self.estimator == "over_layers" or self.delta == DEFAULT_DELTA:
            return []
        return [f"delta has no effect with estimator finite_differences, got {self.delta}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rvt(AttentionBase):
    """RVT's position-aware attention scaling: the logits are multiplied by sigmoid of a learned matrix.

    Attributes:
        formula: keys as projected, as RVT has it (``paper``), or of unit length, as the code of Robust KDE, whose
            baseline RVT is, has it (``released``).
    """

    kind: ClassVar[str] = "rvt"

    formula: Formula = "paper"

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return num_heads * num_tokens**2
