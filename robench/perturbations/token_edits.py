"""Declarations of random edits of sequences of tokens: replacement and deletion."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.declarations.base import LARGEST, FieldProblem, PerturbationBase
from robench.domains.tokens import TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEdits(PerturbationBase):
    """Base of the declarations of random edits of sequences of tokens; both sides of a pair are edited alike.

    Attributes:
        rate: proportion of the tokens of a sequence, padding not counted; a fraction of a token is rounded at random,
            so that its mean is exact.
    """

    domain: ClassVar[str] = TOKENS.name

    rate: Annotated[Fraction, Ge(0), Le(1)]

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: its inputs are not tokens."""
        if dataset.domain == self.domain:
            return []
        return [("", f"must be no {self.kind} on {dataset.name}, whose inputs ({dataset.domain}) are not tokens")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSwap(TokenEdits):
    """Replacement of random tokens by other tokens of the dataset, all equally likely.

    Attributes:
        lowest, highest: first and last token that replaces another, such as 1 and the last of the vocabulary; or 33 and
            127, the printable ones of bytes.
    """

    kind: ClassVar[str] = "token-swap"
    implementation: ClassVar[str] = "robench.perturbations.token_edits_impl:swapped"

    lowest: Annotated[int, Ge(1), Le(LARGEST)] = 1
    highest: Annotated[int, Ge(2), Le(LARGEST)]

    def contradictions(self) -> list[FieldProblem]:
        """Refuse fewer than two tokens: a token is replaced by another one."""
        if self.lowest < self.highest:
            return []
        return [("highest", f"must be above lowest {self.lowest}, got {self.highest}")]

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: other inputs, or a smaller vocabulary."""
        problems = super(TokenSwap, self).problems_on(dataset)
        size = getattr(dataset, "vocabulary_size", None)
        if not problems and size is not None and self.highest >= size:
            message = f"must be at most {size - 1}, the last token of dataset {dataset.name}, got {self.highest}"
            return [("highest", message)]
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDeletion(TokenEdits):
    """Deletion of random tokens; later ones move up, and at least one token of a sequence stays."""

    kind: ClassVar[str] = "token-deletion"
    implementation: ClassVar[str] = "robench.perturbations.token_edits_impl:deleted"
