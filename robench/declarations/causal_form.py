"""Declarations of parts of a transformer that may have a causal form, for language models."""

from __future__ import annotations

from typing import Any, ClassVar

from robench.core.errors import DeclarationError
from robench.declarations.base import DeclarationBase, imported


class CausalFormBase(DeclarationBase):
    """Declaration of a part whose causal form, if it has one, is a second implementation.

    In a causal form the output of a token depends on it and earlier ones alone, in value and gradient.

    Attributes:
        family: noun of the family in messages.
        causal_implementation: ``module:name`` of the causal form, called like the implementation, with the same names
            of parameters; empty if there is none.
        not_causal: reason why there is none.
    """

    family: ClassVar[str]
    causal_implementation: ClassVar[str] = ""
    not_causal: ClassVar[str] = ""

    @property
    def causal_problem(self) -> str:
        """Return the reason why these settings have no causal form; empty if they have one."""
        return "" if self.causal_implementation else self.not_causal or "its declaration names no causal_implementation"

    def implemented_causally(self) -> Any:
        """Import and return the causal form, a callable like the implementation.

        Raises:
            DeclarationError: these settings have none; the message says why.
        """
        if problem := self.causal_problem:
            raise DeclarationError(
                f"{self.family} {self.kind} has no causal form, which language models need: {problem}"
            )
        return imported(self.causal_implementation)
