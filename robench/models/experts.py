"""Declaration of sparse mixtures of experts, which take the place of a block's MLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import DeclarationBase, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts(DeclarationBase):
    """Sparse mixture of experts: a linear gate sends each token to a few of several MLPs.

    Attributes:
        num_experts: number of MLPs, each with the backbone's hidden width; ``num_chosen``: how many of them each token
            goes to, those with its highest gate logits.
        weights: weights of a token's outputs: a softmax over the chosen experts' logits (``chosen``), as in Shazeer et
            al. 2017, arXiv:1701.06538, or their part of the softmax over all (``all``), as in the Switch Transformer,
            Fedus et al. 2021, arXiv:2101.03961, which has ``num_chosen`` 1.
    """

    kind: ClassVar[str] = "experts"
    implementation: ClassVar[str] = "robench.models.experts_impl:ExpertMlp"

    num_experts: Annotated[int, Ge(2), Le(4096)]
    num_chosen: Annotated[int, Ge(1), Le(4096)] = 2
    weights: Literal["chosen", "all"] = "chosen"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse more chosen experts than there are, and a gate that no gradient reaches."""
        if self.num_chosen > self.num_experts:
            return [("num_chosen", f"must be at most num_experts {self.num_experts}, got {self.num_chosen}")]
        if self.num_chosen == 1 and self.weights == "chosen":
            wrong = "must be all where num_chosen is 1: a single expert's weight is 1, so that the gate learns nothing"
            return [("weights", wrong)]
        return []

    def parameters_in(self, *, dim: int, feedforward: int) -> int:
        """Return the number of parameters of the matrices of a mixture in one block."""
        return self.num_experts * (2 * dim * feedforward + dim)
