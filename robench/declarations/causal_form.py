"""Declarations of parts of a transformer that may have a causal form, for language models."""

from __future__ import annotations

from typing import Any, ClassVar

from robench.core.errors import DeclarationError
from robench.declarations.base import DeclarationBase


class CausalFormBase(DeclarationBase):
    """Declaration of a part whose implementation may have a causal form, built where the backbone is causal.

    In a causal form the output of a token depends on it and earlier ones alone, in value and gradient.

    Attributes:
        family: noun of the family in messages.
        has_causal_form: whether the implementation has a causal form, with the same names of parameters.
        not_causal: reason why there is none.
    """

    family: ClassVar[str]
    has_causal_form: ClassVar[bool] = False
    not_causal: ClassVar[str] = ""

    @property
    def causal_problem(self) -> str:
        """Return the reason why these settings have no causal form; empty if they have one."""
        return "" if self.has_causal_form else self.not_causal or "its declaration does not set has_causal_form"

    def implemented_for(self, *, is_causal: bool) -> Any:
        """Import and return the implementation, for a causal backbone or another one.

        Raises:
            DeclarationError: the backbone is causal, and these settings have no causal form; the message says why.
        """
        if is_causal and (problem := self.causal_problem):
            raise DeclarationError(
                f"{self.family} {self.kind} has no causal form, which language models need: {problem}"
            )
        return self.implemented()
