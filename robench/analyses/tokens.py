"""Analyses of the tokens between blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from robench.analyses.base import AnalysisBase, Part, Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSimilarity(AnalysisBase):
    """Cosine similarity of two tokens, the mean over all pairs; layer 0 is what enters the first block.

    Layer n is what leaves the n-th block, with its residual connections and MLP. Over-smoothing shows as values near 1.

    Source: Bilateral and Boost attention, arXiv:2506.10371, figure 6; Twicing Attention, arXiv:2503.00687, figures 1
    and 8.

    Attributes:
        special: whether class and distillation tokens are among the tokens.
    """

    kind: ClassVar[str] = "token-similarity"
    implementation: ClassVar[str] = "robench.analyses.tokens_impl:token_similarity"
    title: ClassVar[str] = "how alike tokens become from block to block"
    needs: ClassVar[tuple[Part, ...]] = ("tokens",)
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "similarity": Statistic(meaning="similarity (0: embedding)", axes=("layer",)),
    }

    special: bool = True
