"""Corruptions of images: those of ImageNet-C, made on the fly, at five severities.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261. What is made of a declaration is never ImageNet-C itself, which
is the published files alone: the authors drew without a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.corruptions import TYPES
from robench.declarations.perturbation_base import PerturbationBase
from robench.domains.images import IMAGES

if TYPE_CHECKING:
    from robench.core.declared import DatasetDeclaration
    from robench.declarations.base import FieldProblem

    TypeName = str
else:
    # At run time the choices, for whoever reads declarations from YAML.
    TypeName = Literal[tuple(TYPES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption(PerturbationBase):
    """One type of ImageNet-C's corruptions at one severity. Hendrycks and Dietterich 2019, arXiv:1903.12261.

    Attributes:
        type: one of ``robench.corruptions.TYPES``; severity: 1 (weak) to 5 (strong).
        constants: whose strengths: the authors' for images of 224 pixels (``imagenet``), or for 32 (``cifar``).
        saved_as: ``float`` for 8-bit levels as computed, or ``jpeg-85`` with the compression that ImageNet-C was saved
            with; CIFAR-10-C was saved without.
    """

    kind: ClassVar[str] = "corruption"
    version: ClassVar[int] = 2
    implementation: ClassVar[str] = "robench.corruptions.corruption_impl:corrupt"

    type: TypeName
    severity: Annotated[int, Ge(1), Le(5)]
    constants: Literal["imagenet", "cifar"] = "imagenet"
    saved_as: Literal["float", "jpeg-85"] = "float"

    @property
    def corruption(self) -> tuple[str, int]:
        """Type and severity."""
        return self.type, self.severity

    def problem_on(self, dataset: DatasetDeclaration) -> str:
        """Return what keeps the corruption from a dataset: that it is not of images."""
        if dataset.domain == IMAGES.name:
            return ""
        return f"must be no corruption of images on {dataset.name}, whose inputs are of the domain {dataset.domain}"

    def contradictions(self) -> list[FieldProblem]:
        """A type that no author defined."""
        return [] if self.type in TYPES else [("type", f"must be one of {', '.join(TYPES)}, got {self.type}")]
