"""Analyses of the weights of each head as a matrix: rank, eigenvalues, and what they leave of the values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from robench.analyses.base import AnalysisBase, Part, Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRank(AnalysisBase):
    """Effective rank of the weights of each head: the exponential of the entropy of their singular values' proportions.

    It is 1 where all tokens attend alike, and the number of tokens where each attends to another one alone.

    Source: Roy & Vetterli 2007, The effective rank, EUSIPCO, definition 1.
    """

    kind: ClassVar[str] = "effective-rank"
    implementation: ClassVar[str] = "robench.analyses.spectra_impl:effective_rank"
    title: ClassVar[str] = "in how many ways a head's tokens attend"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "effective_rank": Statistic(meaning="effective rank of attention", axes=("layer", "head")),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum(AnalysisBase):
    """Eigenvalues of the weights of each head, and how much of the differences between values the weights leave.

    Eigenvalues, and not singular values: it is by their powers that repeated attention vanishes in proposition 1, and
    Twicing attention makes 2 x - x^2 of each eigenvalue x. They are complex where queries are not keys, so their sizes
    are shown, the mean over heads. The smoothing is what one layer leaves, the proportion of the values' deviation from
    their mean. It is 0 where all tokens become equal, and may be above 1.

    Source: Twicing Attention, arXiv:2503.00687, equations 11 and 12 and proposition 1.
    """

    kind: ClassVar[str] = "spectrum"
    implementation: ClassVar[str] = "robench.analyses.spectra_impl:spectrum"
    title: ClassVar[str] = "how strongly attention smooths its values"
    needs: ClassVar[tuple[Part, ...]] = ("weights", "values")
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "eigenvalue": Statistic(
            meaning="size of eigenvalues",
            axes=("layer", "x"),
            x="rank by size, from 0",
        ),
        "smoothing": Statistic(meaning="deviation of values left", axes=("layer", "head")),
    }
