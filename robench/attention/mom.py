"""Declaration of attention by the median-of-means principle: random subsets of the keys, and the median one counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attention.base import AttentionBase

if TYPE_CHECKING:
    from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianOfMeans(AttentionBase):
    """What both mechanisms are asked for.

    Attributes:
        num_blocks: random subsets of the keys; odd, so that one of them is the median.
        block_fraction: share of the keys that a subset has.
        formula: the median is each query's own (``paper``), or one for the whole example (``released``).
    """

    num_blocks: Annotated[int, Ge(1), Le(1000)] = 5
    block_fraction: Annotated[float, Gt(0), Le(1)] = 0.8
    formula: Literal["paper", "released"] = "paper"

    def contradictions(self) -> list[FieldProblem]:
        """Of an even number of blocks none is the median."""
        return [("num_blocks", f"must be odd, got {self.num_blocks}")] if self.num_blocks % 2 == 0 else []

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Return what does not go with a backbone of so many tokens."""
        if int(num_tokens * self.block_fraction) >= 1:
            return []
        return [("block_fraction", f"must leave at least one of {num_tokens} tokens, got {self.block_fraction}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mom(MedianOfMeans):
    """Median-of-means attention: Gaussian kernels on normalised keys, within the median subset. Han et al. 2022."""

    kind: ClassVar[str] = "mom"
    implementation: ClassVar[str] = "robench.attention.mom_impl:MomAttention"
