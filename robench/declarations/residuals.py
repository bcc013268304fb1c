"""Residual connections around the attention of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.declarations.base import DeclarationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Boost(DeclarationBase):
    """Boosted residual: Y' = f(Y) + t Y0 + (1 - t) Y with a learned t, zero at start; Y0 entered the first block."""

    kind: ClassVar[str] = "boost"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatScale(DeclarationBase):
    """FeatScale: mean and rest of the attention's output are scaled apart, by learned factors for each channel.

    Attributes:
        formula: factors 1 + lambda (``paper``), or 1 + 2 lambda, since the code adds them twice (``released``).
    """

    kind: ClassVar[str] = "featscale"

    formula: Literal["paper", "released"] = "paper"
