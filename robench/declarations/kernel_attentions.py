"""Attention mechanisms that are kernel density estimators, and their robust forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt

from robench.declarations.base import DeclarationBase

Formula = Literal["paper", "released"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kde(DeclarationBase):
    """Attention as kernel regression: Gaussian kernels on normalised keys. Han et al. 2022, Robust KDE."""

    kind: ClassVar[str] = "kde"

    formula: Formula = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rkde(DeclarationBase):
    """Robust kernel density attention: outlying keys get less weight, by iteratively re-weighted least squares.

    Attributes:
        loss: robust loss; ``threshold``: a of that loss.
        num_iterations: re-weightings; weights start uniform, and stay so where all vanish.
    """

    kind: ClassVar[str] = "rkde"

    loss: Literal["huber", "hampel", "welsch", "tukey"] = "huber"
    threshold: Annotated[float, Gt(0)] = 0.2
    num_iterations: Annotated[int, Ge(1)] = 1
    formula: Formula = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fourier(DeclarationBase):
    """FourierFormer: products of sinc functions, to the power ``power``, with one learned radius."""

    kind: ClassVar[str] = "fourier"

    power: Annotated[int, Ge(1)] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Mgk(DeclarationBase):
    """Mixture of Gaussian keys: several keys a token, weighed by learned shares. Nguyen et al. 2022."""

    kind: ClassVar[str] = "mgk"

    num_mixtures: Annotated[int, Ge(2)] = 2
