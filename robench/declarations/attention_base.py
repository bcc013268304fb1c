"""Base of the declarations of attention mechanisms."""

from __future__ import annotations

from robench.declarations.base import DeclarationBase


class AttentionBase(DeclarationBase):
    """Declaration of an attention mechanism."""

    @property
    def is_coupled(self) -> bool:
        """Return True where the rows of a batch influence each other, so that outputs depend on their neighbours."""
        return False
