"""Errors of reference models, the units of corruption errors, by family of corruptions.

AlexNet's on ImageNet and ImageNet-C are the units of the mCE in papers. Source of the fifteen: Hendrycks and Dietterich
2019, "Benchmarking neural network robustness to common corruptions and perturbations", arXiv:1903.12261, whose authors
published them beside their code (github.com/hendrycks/robustness, the spreadsheet that shows how to calculate the mCE);
the repositories of RPC, RVT, FAN and easyrobust have the same digits. Each is the mean over five severities of 50,000
JPEG files, centre-cropped to 224 without resizing.

Source of the clean error: the same model (the authors' ImageNet-C/test.py loads torchvision's AlexNet), by the figure
of torchvision's ``AlexNet_Weights.IMAGENET1K_V1``: 56.522 % top-1 accuracy. The paper prints it rounded, 43.5 %
(table 1).

Source of the extra four: the same authors' README from commit 76d9393 of 10 October 2019 (pull request 20, "Add AlexNet
errors on ImageNet-C") to ac836a5 of 27 February 2020, in one table with the fifteen, whose digits are those above; a
link to the spreadsheet has taken its place since. They are not part of the mCE over the fifteen; papers print a
separate mean over the four.

digits-vit's on digits-c are the units of the digits' mCE, written by `make errors` from 600 images a type and severity
on a CPU.

A mean is over the fifteen types of ImageNet-C, even if a suite has others; over the others if it has none of the
fifteen (``mean_corruption_error`` and ``mean_error`` of imagenet-c-extra).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from robench.core.errors import DeclarationError
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceErrors:
    """Top-1 errors of a reference model: units of measurement, and therefore without uncertainty.

    Attributes:
        model: name of the reference in messages.
        clean: error on the images without corruption, a proportion in [0, 1].
        corrupted: mean error over the five severities, by type of corruption, proportions in (0, 1].

    Raises:
        DeclarationError: one is not such a proportion; an error of 0 cannot be a unit.
    """

    model: str
    clean: float
    corrupted: Mapping[str, float]

    def __post_init__(self) -> None:
        if not 0 <= self.clean <= 1:
            raise DeclarationError(f"{self.model}'s clean error must be a proportion in [0, 1], got {self.clean}")
        for corruption, error in self.corrupted.items():
            if not 0 < error <= 1:
                raise DeclarationError(
                    f"{self.model}'s error under {corruption} must be in (0, 1] to be a unit, got {error}; "
                    "choose another reference or leave the corruption out"
                )

    def over(self, corruptions: Iterable[str]) -> ReferenceErrors:
        """Return the errors under the given types alone, over which a mean is taken."""
        return replace(self, corrupted={each: self.corrupted[each] for each in corruptions})

    @property
    def degradations(self) -> dict[str, float]:
        """Return the increase of the reference's error over its clean one, by type of corruption.

        Raises:
            DeclarationError: a type does not increase it, so that it cannot be a unit.
        """
        for corruption, error in self.corrupted.items():
            if error <= self.clean:
                raise DeclarationError(
                    f"{self.model} errs no more under {corruption} ({error}) than without ({self.clean}), so that "
                    "relative corruption errors are undefined; choose another reference or leave the corruption out"
                )
        return {corruption: error - self.clean for corruption, error in self.corrupted.items()}


ALEXNET = ReferenceErrors(
    model="AlexNet",
    clean=0.43478,
    corrupted={
        "gaussian_noise": 0.886428,
        "shot_noise": 0.894468,
        "impulse_noise": 0.922640,
        "defocus_blur": 0.819880,
        "glass_blur": 0.826268,
        "motion_blur": 0.785948,
        "zoom_blur": 0.798360,
        "snow": 0.866816,
        "frost": 0.826572,
        "fog": 0.819324,
        "brightness": 0.564592,
        "contrast": 0.853204,
        "elastic_transform": 0.646056,
        "pixelate": 0.717840,
        "jpeg_compression": 0.606500,
        "speckle_noise": 0.845388,
        "gaussian_blur": 0.787108,
        "spatter": 0.717512,
        "saturate": 0.658248,
    },
)
DIGITS_VIT = ReferenceErrors(
    model="digits-vit",
    clean=0.011667,
    corrupted={
        "gaussian_noise": 0.017333,
        "shot_noise": 0.017667,
        "impulse_noise": 0.026333,
        "defocus_blur": 0.011333,
        "glass_blur": 0.032667,
        "motion_blur": 0.029000,
        "zoom_blur": 0.022667,
        "snow": 0.070333,
        "frost": 0.256333,
        "fog": 0.329000,
        "brightness": 0.142667,
        "contrast": 0.362667,
        "elastic_transform": 0.067333,
        "pixelate": 0.018667,
        "jpeg_compression": 0.013000,
        "speckle_noise": 0.021000,
        "gaussian_blur": 0.010667,
        "spatter": 0.027000,
        "saturate": 0.016667,
    },
)
# By family of corruptions.
REFERENCES: Mapping[str, ReferenceErrors] = {
    "imagenet-c": ALEXNET,
    "imagenet-c-live": ALEXNET,
    "digits-c": DIGITS_VIT,
}


def averaged_types(types: Collection[str]) -> tuple[str, ...]:
    """Return the types of corruption that a mean averages, for a suite with some of ``types``.

    These are the 15 types of ImageNet-C as published, or the 4 extra ones; other types are averaged only if there are
    no published ones.

    >>> len(averaged_types(["snow", "spatter"])), averaged_types(["spatter"])
    (15, ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate'))
    """
    for published in (COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS):
        if any(each in published for each in types):
            return published
    return tuple(sorted(types))
