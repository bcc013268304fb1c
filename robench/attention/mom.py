"""Declaration of median-of-means attention: the median of random subsets of the keys."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attention.base import AttentionBase
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianOfMeans(AttentionBase):
    """Common fields of the median-of-means mechanisms.

    Attributes:
        num_blocks: number of random subsets of the keys; odd, so that one of them is the median.
        block_fraction: proportion of the keys in a subset.
        formula: one median per query (``paper``), or one for the whole example (``released``), which has no causal
            form.
    """

    num_blocks: Annotated[int, Ge(1), Le(1000)] = 5
    block_fraction: Annotated[float, Gt(0), Le(1)] = 0.8
    formula: Literal["paper", "released"] = "paper"

    @property
    def causal_problem(self) -> str:
        """Return the reason why one median for all queries has no causal form."""
        if self.formula == "paper":
            return ""
        return (
            "with formula released the median is of all queries, later ones too; the authors' language model is not"
            " causal either: its mask exchanges queries and keys, so that a query sees itself and later keys alone"
        )

    def contradictions(self) -> list[FieldProblem]:
        """Refuse an even number of blocks, which has no median."""
        return [("num_blocks", f"must be odd, got {self.num_blocks}")] if self.num_blocks % 2 == 0 else []

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Refuse blocks that would be empty with this number of tokens."""
        if int(num_tokens * self.block_fraction) >= 1:
            return []
        return [("block_fraction", f"must leave at least one of {num_tokens} tokens, got {self.block_fraction}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mom(MedianOfMeans):
    """Median-of-means attention: Gaussian kernels on normalised keys, within the median subset. Han et al. 2022."""

    kind: ClassVar[str] = "mom"
    implementation: ClassVar[str] = "robench.attention.mom_impl:MomAttention"
    has_causal_form: ClassVar[bool] = True
