"""Base of the declarations of attention mechanisms, and the types that their fields share."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem

# The two readings of a mechanism: what is printed, and what the authors' public code computes.
Formula = Literal["paper", "released"]
Layers = Literal["all"] | tuple[int, ...]
Count = Annotated[int, Ge(1), Le(LARGEST)]


class AttentionBase(DeclarationBase):
    """Declaration of an attention mechanism; the defaults are those of softmax attention.

    The implementation is a callable ``(declaration, geometry) -> nn.Module``; the module takes tokens (B, N, C) and the
    state of the forward pass (``attention.state``).
    """

    @property
    def layers(self) -> Layers:
        """0-based layers that have the mechanism, or ``all``."""
        return "all"

    @property
    def elsewhere(self) -> str:
        """Kind of the mechanism of all other layers."""
        return "softmax"

    @property
    def is_coupled(self) -> bool:
        """True where the rows of a batch influence each other, so that outputs depend on their neighbours."""
        return False

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return 0

    def problems_in(self, *, num_tokens: int, depth: int) -> list[FieldProblem]:
        """Return what does not fit a backbone of so many tokens and layers."""
        return []


def too_many(field: str, asked: int, num_tokens: int) -> list[FieldProblem]:
    """Return a message where more is asked for than there are tokens, no message elsewhere."""
    return (
        [(field, f"must be at most the {num_tokens} tokens of the backbone, got {asked}")] if asked > num_tokens else []
    )
