"""Declaration of insertions into expressions of ListOps that leave every value unchanged."""

from dataclasses import dataclass
from typing import ClassVar

from robench.core.declared import DatasetDeclaration
from robench.declarations.base import FieldProblem
from robench.domains.listops import VOCABULARY
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
        if dataset.domain == self.domain and getattr(dataset, "vocabulary", ()) == VOCABULARY:
            return []
        return [("", f"must be no {self.kind} on {dataset.name}, whose inputs are not expressions of ListOps")]
