"""Base of the declarations of attention mechanisms."""

from __future__ import annotations

from robench.declarations.base import DeclarationBase


class AttentionBase(DeclarationBase):
    """Declaration of an attention mechanism; the defaults are those of softmax attention."""

    @property
    def is_coupled(self) -> bool:
        """True where the rows of a batch influence each other, so that outputs depend on their neighbours."""
        return False

    def parameters_in(self, *, num_tokens: int, num_heads: int, dim: int) -> int:
        """Return how many parameters a layer has beside those of softmax attention."""
        return 0

    def problems_in(self, *, num_tokens: int, depth: int) -> list[str]:
        """Return what does not fit a backbone of so many tokens and layers."""
        return []
