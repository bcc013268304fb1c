"""Attention mechanisms that are kernel density estimators, and their robust forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.declarations.attention_base import AttentionBase
from robench.declarations.base import LARGEST

Formula = Literal["paper", "released"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kde(AttentionBase):
    """Attention as kernel regression: Gaussian kernels on normalised keys. Han et al. 2023, arXiv:2210.05794.

    Attributes:
        formula: kernel exp(-|q - k|^2 / (2 sqrt(d))) (``paper``), or exp(-|q - k|^2 / sqrt(d)) (``released``).
    """

    kind: ClassVar[str] = "kde"

    formula: Formula = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rkde(AttentionBase):
    """Robust kernel density attention: outlying keys get less weight, by iteratively re-weighted least squares.

    Attributes:
        loss: robust loss; ``threshold``: a of that loss.
        num_iterations: re-weightings; weights start uniform, and stay so where all vanish.
        formula: kernel as of ``kde``; the distance of a key from the mean as printed (``paper``), or with the sign of
            its middle term turned, so that outliers weigh more, and a tail of 0.01 for Hampel's loss (``released``).
    """

    kind: ClassVar[str] = "rkde"

    loss: Literal["huber", "hampel", "welsch", "tukey"] = "huber"
    threshold: Annotated[float, Gt(0), Le(LARGEST)] = 0.2
    num_iterations: Annotated[int, Ge(1), Le(1000)] = 1
    formula: Formula = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fourier(AttentionBase):
    """FourierFormer: products of sinc functions with one learned radius. Nguyen et al. 2022, arXiv:2206.00206.

    Attributes:
        power: of each sinc; even, so that no kernel is negative.
    """

    kind: ClassVar[str] = "fourier"

    power: Annotated[int, Ge(2), Le(LARGEST)] = 4

    def contradictions(self) -> list[str]:
        """Odd powers of a sinc are negative in places, where weights have no sense and their sum may be zero."""
        return [f"power must be even, got {self.power}"] if self.power % 2 else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Mgk(AttentionBase):
    """Mixture of Gaussian keys: several keys a token, weighed by learned shares. Nguyen et al. 2022, arXiv:2110.08678.

    Attributes:
        num_mixtures: keys of each token.
    """

    kind: ClassVar[str] = "mgk"

    num_mixtures: Annotated[int, Ge(2), Le(1000)] = 2

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return (self.num_mixtures - 1) * dim**2
