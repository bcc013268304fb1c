"""Declaration of Linformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from robench.attention.base import AttentionBase, Count, too_many

if TYPE_CHECKING:
    from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Linformer(AttentionBase):
    """Linformer: keys and values are projected to fewer tokens by one learned matrix for each head and layer.

    Wang et al. 2020, arXiv:2006.04768.

    Attributes:
        projection_length: tokens after the projection, at most those before it.
    """

    kind: ClassVar[str] = "linformer"
    implementation: ClassVar[str] = "robench.attention.linformer_impl:LinformerAttention"

    projection_length: Count

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return num_heads * self.projection_length * num_tokens

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Return what does not fit a backbone: a projection to more tokens than it has."""
        return too_many("projection_length", self.projection_length, num_tokens)
