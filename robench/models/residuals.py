"""Declarations of residual connections around the attention of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.declarations.base import CausalFormBase


class ResidualBase(CausalFormBase):
    """Base class of residual connections; the implementation is a callable ``(declaration, parts) -> nn.Module``.

    A connection that does not mix tokens has a causal form: it is the same block.
    """

    family: ClassVar[str] = "residual connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainResidual(ResidualBase):
    """Plain residual connection: the input plus the branch."""

    kind: ClassVar[str] = "plain"
    implementation: ClassVar[str] = "robench.models.transformer_impl:PlainBlock"
    has_causal_form: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Boost(ResidualBase):
    """Boosted residual connection: Y' = f(Y) + t Y0 + (1 - t) Y with a learned t, zero at start; Y0 entered block 0."""

    kind: ClassVar[str] = "boost"
    implementation: ClassVar[str] = "robench.models.transformer_impl:BoostBlock"
    has_causal_form: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatScale(ResidualBase):
    """FeatScale: separate scaling of mean and remainder of the attention's output, by learned per-channel factors.

    Attributes:
        formula: factors 1 + lambda (``paper``), or 1 + 2 lambda, since the code adds them twice (``released``).
    """

    kind: ClassVar[str] = "featscale"
    implementation: ClassVar[str] = "robench.models.transformer_impl:FeatScaleBlock"
    not_causal: ClassVar[str] = "it scales the mean over all tokens, later ones too"

    formula: Literal["paper", "released"] = "paper"
