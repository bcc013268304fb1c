"""Base class of the declarations of perturbations of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from robench.declarations.base import PerturbationBase
from robench.domains.texts import TEXTS

if TYPE_CHECKING:
    from robench.core.declared import DatasetDeclaration
    from robench.declarations.base import FieldProblem


class TextPerturbation(PerturbationBase):
    """Perturbation of texts.

    Attributes:
        tasks: names of the tasks that it serves; empty for all.
    """

    domain: ClassVar[str] = TEXTS.name
    tasks: ClassVar[tuple[str, ...]] = ()

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why it cannot be applied to a dataset: of other inputs, or of another task."""
        if dataset.domain != self.domain:
            return [("", f"must serve texts, got dataset {dataset.name} of {dataset.domain}")]
        if self.tasks and dataset.task not in self.tasks:
            return [("", f"must serve {' or '.join(self.tasks)}, got dataset {dataset.name} of {dataset.task}")]
        return []
