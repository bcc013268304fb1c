"""Corruptions of images: the 15 of ImageNet-C and its 4 extra ones, at five severities.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261. What is made of a declaration is never ImageNet-C itself, which
is the published files alone: the authors drew without a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from annotated_types import Ge, Le

from robench.declarations.base import DeclarationBase

CommonCorruption = Literal[
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
]
ExtraCorruption = Literal["speckle_noise", "gaussian_blur", "spatter", "saturate"]
CorruptionType = Literal[CommonCorruption, ExtraCorruption]

SEVERITIES = (1, 2, 3, 4, 5)
COMMON_CORRUPTIONS: tuple[CommonCorruption, ...] = get_args(CommonCorruption)
EXTRA_CORRUPTIONS: tuple[ExtraCorruption, ...] = get_args(ExtraCorruption)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption(DeclarationBase):
    """One type of ImageNet-C's corruptions at one severity. Hendrycks and Dietterich 2019, arXiv:1903.12261.

    Attributes:
        type: which of the 19; severity: 1 (weak) to 5 (strong).
        constants: whose strengths: the authors' for images of 224 pixels (``imagenet``), or for 32 (``cifar``).
        saved_as: ``float`` for 8-bit levels as computed, or ``jpeg-85`` with the compression that ImageNet-C was saved
            with; CIFAR-10-C was saved without.
    """

    kind: ClassVar[str] = "corruption"
    version: ClassVar[int] = 2

    type: CorruptionType
    severity: Annotated[int, Ge(1), Le(5)]
    constants: Literal["imagenet", "cifar"] = "imagenet"
    saved_as: Literal["float", "jpeg-85"] = "float"

    def contradictions(self) -> list[str]:
        """A type that no author defined."""
        if self.type in COMMON_CORRUPTIONS or self.type in EXTRA_CORRUPTIONS:
            return []
        return [f"type must be one of {', '.join(COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS)}, got {self.type}"]
