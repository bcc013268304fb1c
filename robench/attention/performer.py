"""Declaration of Performer: softmax attention by random features."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.attention.base import AttentionBase, Count, Formula
from robench.declarations.base import LARGEST, SEEDS, FieldProblem

DEFAULT_EPSILON = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer(AttentionBase):
    """Performer: softmax attention approximated by positive random features. Choromanski et al. 2021, arXiv:2009.14794.

    Attributes:
        num_features: number of random features of a query or key.
        redraw_seed: seed from which each layer draws its projection, once; the projection is part of the state dict.
        formula: features as printed (``paper``), or divided by the largest one, plus epsilon (``released``).
        epsilon: constant that ``released`` adds to each feature.
    """

    kind: ClassVar[str] = "performer"
    implementation: ClassVar[str] = "robench.attention.performer_impl:PerformerAttention"
    has_causal_form: ClassVar[bool] = True

    num_features: Count
    redraw_seed: Annotated[int, Ge(0), Lt(SEEDS)] = 0
    formula: Formula = "paper"
    epsilon: Annotated[float, Gt(0), Le(LARGEST)] = DEFAULT_EPSILON

    def contradictions(self) -> list[FieldProblem]:
        """Refuse epsilon with the features as printed."""
        if self.formula == "released" or self.epsilon == DEFAULT_EPSILON:
            return []
        return [("epsilon", f"has no effect with formula paper, got {self.epsilon}")]

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of values of a layer beyond softmax attention's, drawn in blocks and with 64 bits."""
        head_dim = dim // num_heads
        return 4 * (self.num_features + head_dim) * head_dim
