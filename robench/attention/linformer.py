"""Declaration of Linformer."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase, Count, Positions, too_many
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Linformer(AttentionBase):
    """Linformer: projection of keys and values to fewer tokens by one learned matrix for each head and layer.

    Wang et al. 2020, arXiv:2006.04768.

    Attributes:
        projection_length: number of tokens after the projection, at most the number before it.
        is_shared: whether one projection serves all layers of the backbone, as in the released code of the Long-Range
            Arena's experiments.
        positions: logits of positions beside those of contents, a definition of robench's own: of ALiBi's distances
            (``alibi``) or of the backbone's learned vectors (``bilateral``); ``none`` as in the paper.
    """

    kind: ClassVar[str] = "linformer"
    implementation: ClassVar[str] = "robench.attention.linformer_impl:LinformerAttention"
    not_causal: ClassVar[str] = "its projection mixes later tokens into every key and value"

    projection_length: Count
    is_shared: bool = False
    positions: Positions = "none"

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return the number of parameters of a layer beyond those of softmax attention."""
        return num_heads * self.projection_length * num_tokens

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Refuse a projection to more tokens than the backbone has."""
        return too_many("projection_length", self.projection_length, num_tokens)
