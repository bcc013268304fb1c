"""Declarations of insertions into expressions of ListOps that leave every value unchanged."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.declarations.base import FieldProblem, PerturbationBase
from robench.domains.listops import VOCABULARY
from robench.domains.tokens import TOKENS
from robench.perturbations.token_edits import TokenEdits


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOpsInsertion(TokenEdits):
    """Insertion of arguments that change no value, at random places of an expression of ListOps.

    An argument is a digit that is not below the value of a minimum, or not above that of a maximum, the value of a
    median, or 0 for a sum. The number of insertions is ``rate`` times that of gaps between tokens, limited by the
    positions that are left; operations may get more arguments than the dataset's have.
    """

    kind: ClassVar[str] = "listops-insertion"
    implementation: ClassVar[str] = "robench.perturbations.listops_insertion_impl:inserted"

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: its inputs are not expressions of ListOps."""
        return _problems(self.kind, dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOpsExtension(PerturbationBase):
    """Insertion of arguments that change no value until an expression of ListOps has a given length.

    The arguments are those of ``listops-insertion``, each at a random gap between tokens of the clean expression. A
    larger factor adds further arguments to the same ones. A lone digit has no gaps and stays.

    Attributes:
        factor: length of all expressions in lengths of the dataset, rounded down: of a dataset of 64 positions they
            have 64 tokens with 1, and 96 with 3/2.
    """

    kind: ClassVar[str] = "listops-extension"
    implementation: ClassVar[str] = "robench.perturbations.listops_insertion_impl:extended"
    domain: ClassVar[str] = TOKENS.name

    factor: Annotated[Fraction, Ge(1), Le(100)]

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: its inputs are not expressions of ListOps."""
        return _problems(self.kind, dataset)

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of extended expressions."""
        return (*shape[:-1], int(self.factor * shape[-1]))

    def check_model(self, model: Any, inputs: Any) -> None:
        """Refuse a model whose positions end earlier, by a pass on sequences of the length that expressions get."""
        (num_positions,) = self.shape_of(tuple(inputs.shape[-1:]))
        model.outputs(inputs[..., :1].repeat_interleave(num_positions, -1), range(len(inputs)))


def _problems(kind: str, dataset: DatasetDeclaration) -> list[FieldProblem]:
    if dataset.domain == TOKENS.name and getattr(dataset, "vocabulary", ()) == VOCABULARY:
        return []
    return [("", f"must be no {kind} on {dataset.name}, whose inputs are not expressions of ListOps")]
