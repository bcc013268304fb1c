"""Declaration of corruptions of images: those of ImageNet-C, generated on the fly, at five severities.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261. Generated images are never ImageNet-C itself, which consists of
the published files: the authors drew without a seed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.corruptions import COLOUR_TYPES, TYPES
from robench.declarations.base import FieldProblem, PerturbationBase
from robench.domains.images import IMAGES

if TYPE_CHECKING:
    TypeName = str
else:
    # Choices at run time, for reading declarations from YAML.
    TypeName = Literal[tuple(TYPES)]

NUM_COLOURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptionBase(PerturbationBase):
    """Base of the declarations of corruptions, made at five severities.

    Attributes:
        types: names of all types; ``domain``: that of the inputs.
        type: one of ``types``.
        severity: 1 (weak) to 5 (strong).
    """

    types: ClassVar[Collection[str]]
    domain: ClassVar[str]

    type: str
    severity: Annotated[int, Ge(1), Le(5)]

    @property
    def corruption(self) -> tuple[str, int]:
        """Return type and severity."""
        return self.type, self.severity

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the corruption cannot be applied to a dataset: it is of another domain."""
        if dataset.domain == self.domain:
            return []
        subject = f"must be no corruption of {self.domain} on {dataset.name}"
        return [("", f"{subject}, whose inputs are of the domain {dataset.domain}")]

    def contradictions(self) -> list[FieldProblem]:
        """Refuse an undefined type."""
        known = ", ".join(self.types)
        return [] if self.type in self.types else [("type", f"must be one of {known}, got {self.type}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption(CorruptionBase):
    """Corruption type of ImageNet-C at one severity. Hendrycks and Dietterich 2019, arXiv:1903.12261.

    Attributes:
        type: one of ``robench.corruptions.TYPES``.
        severity: 1 (weak) to 5 (strong).
        constants: strengths chosen by the authors for images of 224 pixels (``imagenet``), or of 32 (``cifar``).
        saved_as: ``float`` for 8-bit levels as computed, or ``jpeg-85`` with the compression of the published
            ImageNet-C; CIFAR-10-C was saved without.
    """

    kind: ClassVar[str] = "corruption"
    version: ClassVar[int] = 2
    implementation: ClassVar[str] = "robench.corruptions.corruption_impl:corrupt"
    types: ClassVar[Collection[str]] = TYPES
    domain: ClassVar[str] = IMAGES.name

    type: TypeName
    constants: Literal["imagenet", "cifar"] = "imagenet"
    saved_as: Literal["float", "jpeg-85"] = "float"

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why the corruption cannot be applied to images of a shape: it mixes red, green and blue."""
        needs_colour = self.type in COLOUR_TYPES or self.saved_as != "float"
        if len(shape) == len(IMAGES.axes) and (shape[0] in (1, NUM_COLOURS) or not needs_colour):
            return ""
        wanted = "colour or grey images (3 or 1, height, width)" if needs_colour else "images (channels, height, width)"
        return f"corruption {self.type!r} needs {wanted}, got {shape}"
