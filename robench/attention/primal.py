"""Declaration of Primal-Attention: projection of tokens on the singular directions of a kernel that is never formed."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase, Count, Formula, Layers
from robench.declarations.base import LARGEST, FieldProblem

DEFAULT_RANK_MULTIPLIER = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Primal(AttentionBase):
    """Primal-Attention: scores of the asymmetric kernel SVD of queries and keys. Chen et al. 2023, arXiv:2305.19798.

    Attributes:
        num_directions: s in the paper, the number of singular directions of a head. The kernel matrix has at most as
            many as there are tokens; the paper has 40 for series of 29 steps.
        rank_multiplier: the projection weights combine num_directions times this many tokens, at most all.
        data_dependent: whether the projection weights are mixtures of the tokens instead of parameters.
        layers: 0-based layers with this mechanism, or ``all`` (the authors' DeiT-small has it in its last layer only);
            ``elsewhere``: mechanism of the other layers.
        formula: formula of the KSVD loss, which no output depends on: the objective as printed, sums weighted by Lambda
            (``paper``); or the square of means weighted by Lambda squared (``released``).
    """

    kind: ClassVar[str] = "primal"
    implementation: ClassVar[str] = "robench.attention.primal_impl:PrimalAttention"
    has_causal_form: ClassVar[bool] = True

    num_directions: Count
    rank_multiplier: Annotated[int, Ge(1), Le(LARGEST)] = DEFAULT_RANK_MULTIPLIER
    data_dependent: bool = True
    layers: Layers = "all"
    elsewhere: Literal["softmax"] = "softmax"
    formula: Formula = "paper"

    @property
    def causal_problem(self) -> str:
        """Return the reason why data-dependent projection weights have no causal form; empty for others."""
        return (
            "data_dependent weights mix all tokens, later ones too; use data_dependent: false"
            if self.data_dependent
            else ""
        )

    def contradictions(self) -> list[FieldProblem]:
        """Refuse rank_multiplier unless tokens are mixed."""
        if self.data_dependent or self.rank_multiplier == DEFAULT_RANK_MULTIPLIER:
            return []
        return [("rank_multiplier", f"has no effect unless data_dependent, got {self.rank_multiplier}")]

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        num_sampled = min(num_tokens, self.num_directions * self.rank_multiplier)
        num_rows = num_sampled if self.data_dependent else dim // num_heads
        return 2 * num_heads * num_rows * self.num_directions
