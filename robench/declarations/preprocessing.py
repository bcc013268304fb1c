"""Declarations of the preprocessing before the first layer; part of the checkpoint, since the weights depend on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, MinLen

from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem

_LEVELS = 255
# One number per channel; a single one applies to every channel.
Channels = tuple[float, ...]
IDENTITY: tuple[Channels, Channels] = (0.0,), (1.0,)


class PreprocessingBase(DeclarationBase):
    """Base class of the declarations of preprocessing."""

    @property
    def domain(self) -> str:
        """Return the name of the domain of the model's inputs."""
        raise NotImplementedError

    @property
    def normalisation(self) -> tuple[Channels, Channels]:
        """Return mean and standard deviation of each channel, which the model subtracts and divides by."""
        return IDENTITY

    @property
    def num_channels(self) -> int | None:
        """Return the number of channels of the model's inputs; None for any."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPreprocessing(PreprocessingBase):
    """Identity: inputs reach the first layer unchanged.

    Attributes:
        inputs: name of their domain.
    """

    kind: ClassVar[str] = "none"

    inputs: str

    @property
    def domain(self) -> str:
        """Return the name of the domain of the model's inputs."""
        return self.inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalisation(PreprocessingBase):
    """Normalisation of real-valued inputs of any domain by the model.

    Attributes:
        inputs: name of their domain, whose axes include ``channels``.
        mean, std: per channel, in the unit of the inputs; applied inside the model, after any perturbation.
    """

    kind: ClassVar[str] = "normalise"

    inputs: str
    mean: Annotated[Channels, MinLen(1)]
    std: Annotated[Channels, MinLen(1)]

    @property
    def domain(self) -> str:
        """Return the name of the domain of the model's inputs."""
        return self.inputs

    @property
    def normalisation(self) -> tuple[Channels, Channels]:
        """Return mean and standard deviation of each channel."""
        return self.mean, self.std

    @property
    def num_channels(self) -> int:
        """Return the number of means."""
        return len(self.mean)

    def contradictions(self) -> list[FieldProblem]:
        """Return problems of std, which must be valid divisors, one per mean."""
        return _std_problems(self.mean, self.std)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePreprocessing(PreprocessingBase):
    """Conversion of an image file to pixels in [0, 1], and normalisation of the pixels by the model.

    Attributes:
        mean, std: per channel, in pixel units; applied inside the model, after any perturbation. Their number is that
            of the channels: one for grey images, three for colour; () for images of any number, not normalised.
        resize: target length in pixels of the shorter side, None for images of the right size.
        longer_at_most: largest length in pixels of the longer side after the resize; the shorter one is then below
            ``resize`` if the image's ratio requires it. With it sides are rounded to the nearest pixel, and pixels
            interpolated bilinearly without antialiasing, as by mmcv's ``imrescale``; None for the resize of timm and
            torchvision, with no such limit.
        crop: side in pixels of the central crop, None for none.
        interpolation: filter of the resize.
    """

    kind: ClassVar[str] = "image"

    mean: Channels
    std: Channels
    resize: Annotated[int | None, Ge(1), Le(4096)] = None
    crop: Annotated[int | None, Ge(1), Le(4096)] = None
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"
    longer_at_most: Annotated[int | None, Ge(1), Le(LARGEST)] = None

    @property
    def domain(self) -> str:
        """Return the name of the domain of images."""
        return "images"

    @property
    def normalisation(self) -> tuple[Channels, Channels]:
        """Return mean and standard deviation of each channel."""
        return (self.mean, self.std) if self.mean else IDENTITY

    @property
    def num_channels(self) -> int | None:
        """Return the number of means; None for any number of channels."""
        return len(self.mean) or None

    def contradictions(self) -> list[FieldProblem]:
        """Return problems of std, which must be valid divisors, and of mean, which must be in pixel units."""
        problems = _std_problems(self.mean, self.std)
        if not all(0 <= mean <= 1 for mean in self.mean):
            # Statistics of pixels from 0 to 255.
            advice = "; divide mean and std by 255" if 1 < max(self.mean) <= _LEVELS else ""
            wanted = "must lie in [0, 1] in every channel (pixel units)"
            problems.append(("mean", f"{wanted}, got {list(self.mean)}{advice}"))
        if self.longer_at_most is not None:
            problems += self._limit_problems(self.longer_at_most)
        return problems

    def _limit_problems(self, longer_at_most: int) -> list[FieldProblem]:
        problems: list[FieldProblem] = []
        if self.resize is None or self.resize > longer_at_most:
            problems.append(("longer_at_most", f"must be at least resize, got {longer_at_most} for {self.resize}"))
        if self.crop is not None:
            problems.append(("crop", f"must be left out with longer_at_most, got {self.crop}"))
        if self.interpolation != "bilinear":
            problems.append(("interpolation", f"must be bilinear with longer_at_most, got {self.interpolation}"))
        return problems


def _std_problems(mean: Channels, std: Channels) -> list[FieldProblem]:
    if len(std) != len(mean):
        return [("std", f"must have as many entries as mean ({len(mean)}), got {len(std)}")]
    if not all(deviation > 0 for deviation in std):
        return [("std", f"must be above 0 in every channel, got {list(std)}")]
    if max(std, default=0) > LARGEST:
        return [("std", f"must be at most {LARGEST} in every channel, got {list(std)}")]
    return []


PREPROCESSINGS: Mapping[str, type[PreprocessingBase]] = {
    "image": ImagePreprocessing,
    "none": NoPreprocessing,
    "normalise": Normalisation,
}
