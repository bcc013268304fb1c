"""What happens to an input before the first layer; part of the checkpoint, because the weights were trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

Channels = tuple[float, float, float]


class PreprocessingBase(DeclarationBase):
    """Base class of what happens to an input before the first layer."""

    @property
    def domain(self) -> str:
        """Name of the domain of the inputs that the model takes."""
        raise NotImplementedError

    @property
    def normalisation(self) -> tuple[Channels, Channels] | None:
        """Mean and standard deviation of each channel of images; None where inputs are left as they are."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPreprocessing(PreprocessingBase):
    """Inputs reach the first layer as the dataset gives them.

    Attributes:
        inputs: name of their domain.
    """

    kind: ClassVar[str] = "none"

    inputs: str

    @property
    def domain(self) -> str:
        """Name of the domain of the inputs that the model takes."""
        return self.inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePreprocessing(PreprocessingBase):
    """How an image file becomes pixels in [0, 1], and how the model normalises those.

    Attributes:
        mean, std: per channel, in pixel units; applied inside the model, after any perturbation.
        resize: length in pixels that the shorter side is resized to, None for images that have their size already.
        crop: side in pixels of the central square that is kept, None for none.
        interpolation: filter of the resize.
    """

    kind: ClassVar[str] = "image"

    mean: Channels
    std: Channels
    resize: Annotated[int | None, Ge(1), Le(4096)] = None
    crop: Annotated[int | None, Ge(1), Le(4096)] = None
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"

    @property
    def domain(self) -> str:
        """Name of the domain of images."""
        return "images"

    @property
    def normalisation(self) -> tuple[Channels, Channels]:
        """Mean and standard deviation of each channel."""
        return self.mean, self.std

    def contradictions(self) -> list[FieldProblem]:
        """Normalisation divides by std; a mean outside [0, 1] is in grey levels and not in pixel units."""
        problems: list[FieldProblem] = []
        if not all(deviation > 0 for deviation in self.std):
            problems.append(("std", f"must be above 0 in every channel, got {list(self.std)}"))
        elif max(self.std) > LARGEST:
            problems.append(("std", f"must be at most {LARGEST} in every channel, got {list(self.std)}"))
        if not all(0 <= mean <= 1 for mean in self.mean):
            problems.append(("mean", f"must lie in [0, 1] in every channel (pixel units), got {list(self.mean)}"))
        return problems


PREPROCESSINGS: Mapping[str, type[PreprocessingBase]] = {"image": ImagePreprocessing, "none": NoPreprocessing}
