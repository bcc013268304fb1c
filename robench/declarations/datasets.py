"""Datasets: what can be known of them before they are opened.

A name may have parts: ``imagenet-c/gaussian_noise/3`` is one type of ImageNet-C at one severity, and
``imagenet-a/bilinear`` is ImageNet-A resized by another filter than the checkpoint's own. Papers resize ImageNet-A, -R
and -O by either (bicubic in the papers' released code, bilinear in that of the sets' authors), and a number says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST, DeclarationBase
from robench.declarations.imagenet_c import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the preprocessing of a checkpoint may be replaced by: the filter of its resize, or no resize at all.
ResizeRule = Literal["bicubic", "bilinear", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDeclaration(DeclarationBase):
    """A dataset as users see it in ``robench list datasets``.

    Attributes:
        folder: folder below the data root that holds it; None where it is embedded in a library.
        num_classes: how many a model has; labels are indices of them.
        num_examples: size of the whole evaluation split.
        class_subset: name of the classes to which logits are masked before the softmax
            (``datasets.class_subsets``); None for all.
        resize_rule: how images are resized, whatever the checkpoint's preprocessing says; None for what it says.
        image_size: side of the square images in pixels, where all are of one size and none is resized.
        corruption, severity: of published corrupted images, which; ``clean``: the dataset of the same images without.
        is_out_of_distribution: no class is right. Labels are there, since every example has one, and mean nothing; a
            model is judged by its confidence.
    """

    kind: ClassVar[str] = "dataset"

    name: str
    title: str
    task: str
    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    num_examples: Annotated[int, Ge(1), Le(1000 * LARGEST)]
    source: str
    licence: str
    folder: str | None = None
    class_subset: str | None = None
    resize_rule: ResizeRule | None = None
    image_size: Annotated[int | None, Ge(1), Le(4096)] = None
    corruption: str | None = None
    severity: Annotated[int | None, Ge(1), Le(5)] = None
    clean: str | None = None
    is_out_of_distribution: bool = False

    def contradictions(self) -> list[str]:
        """Images that are never resized have a size of their own."""
        if self.resize_rule == "none" and self.image_size is None:
            return ["image_size must be given with resize_rule none, got None"]
        return []


DIGITS = DatasetDeclaration(
    name="digits",
    title="Handwritten digits, 8x8 scans shown at 32x32 RGB",
    task="classification",
    num_classes=10,
    num_examples=600,
    source="scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, Alpaydin & Kaynak 1998",
    licence="CC BY 4.0",
    image_size=32,
)
DIGITS_A = replace(
    DIGITS,
    name="digits-a",
    title="Test digits that weak classifiers get wrong, as ImageNet-A to ImageNet",
    num_examples=74,
)
DIGITS_SKETCH = replace(DIGITS, name="digits-sketch", title="Edges of the test digits, as ImageNet-Sketch to ImageNet")
DIGITS_R = replace(
    DIGITS,
    name="digits-r",
    title="Digits rendered from fonts: rotation, weight, colour; as ImageNet-R to ImageNet",
    source="rendered by robench from the fonts that Pillow ships",
    licence="Apache-2.0; the fonts are Pillow's",
)
DIGITS_O = replace(
    DIGITS_R,
    name="digits-o",
    title="Letters as scans of digits look, of no class of the digits; as ImageNet-O to ImageNet",
    num_examples=440,
    is_out_of_distribution=True,
)

IMAGENET_1K = DatasetDeclaration(
    name="imagenet-1k",
    title="ImageNet ILSVRC 2012 validation images",
    task="classification",
    num_classes=1000,
    num_examples=50_000,
    source="Russakovsky et al. 2015, arXiv:1409.0575; to be had from image-net.org",
    licence="ImageNet terms of access, research only",
    folder="imagenet-1k",
)
IMAGENET_A = replace(
    IMAGENET_1K,
    name="imagenet-a",
    title="ImageNet-A: photographs of 200 classes that a ResNet-50 gets wrong",
    num_examples=7_500,
    source="Hendrycks et al. 2021, arXiv:1907.07174",
    licence="MIT (list and code); rights in the photographs are their owners'",
    folder="imagenet-a",
    class_subset="imagenet-a",
)
IMAGENET_R = replace(
    IMAGENET_A,
    name="imagenet-r",
    title="ImageNet-R: renditions (art, toys, tattoos, ...) of 200 classes",
    num_examples=30_000,
    source="Hendrycks et al. 2021, arXiv:2006.16241",
    folder="imagenet-r",
    class_subset="imagenet-r",
)
IMAGENET_O = replace(
    IMAGENET_A,
    name="imagenet-o",
    title="ImageNet-O: images of no class of ImageNet-1k, in folders of the class that a ResNet-50 takes them for",
    num_examples=2_000,
    folder="imagenet-o",
    class_subset="imagenet-o",
    is_out_of_distribution=True,
)
IMAGENET_SKETCH = replace(
    IMAGENET_1K,
    name="imagenet-sketch",
    title="ImageNet-Sketch: black-and-white drawings of all classes",
    num_examples=50_889,
    source="Wang et al. 2019, arXiv:1905.13549",
    licence="MIT (code); rights in the drawings are their owners'",
    folder="imagenet-sketch",
)
IMAGENET_V2 = replace(
    IMAGENET_1K,
    name="imagenet-v2",
    title="ImageNet-V2, matched frequency: the validation set collected anew",
    num_examples=10_000,
    source="Recht et al. 2019, arXiv:1902.10811",
    licence="MIT (code); rights in the photographs are their owners'",
    folder="imagenet-v2",
)


def _same_classes(subset: DatasetDeclaration) -> DatasetDeclaration:
    """Return the ImageNet-1k images of a subset's classes: what its number is to be compared with."""
    return replace(
        IMAGENET_1K,
        name=f"imagenet-1k-{subset.name.removeprefix('imagenet-')}-classes",
        title=f"ImageNet-1k validation images of the 200 classes of {subset.name}",
        num_examples=10_000,
        class_subset=subset.class_subset,
    )


def _resized(declared: DatasetDeclaration, rule: ResizeRule) -> DatasetDeclaration:
    return replace(
        declared, name=f"{declared.name}/{rule}", title=f"{declared.title}; resized {rule}", resize_rule=rule
    )


def _corrupted(corruption: str, severity: int) -> DatasetDeclaration:
    return replace(
        IMAGENET_1K,
        name=f"imagenet-c/{corruption}/{severity}",
        title=f"ImageNet-C: validation images with {corruption.replace('_', ' ')} of severity {severity}",
        source="Hendrycks & Dietterich 2019, arXiv:1903.12261",
        licence="CC BY 4.0",
        folder=f"imagenet-c/{corruption}/{severity}",
        resize_rule="none",
        image_size=224,
        corruption=corruption,
        severity=severity,
        clean=IMAGENET_1K.name,
    )


_SUBSETS = (IMAGENET_A, IMAGENET_R, IMAGENET_O)
_BOTH_SIDES = (*_SUBSETS, *(_same_classes(subset) for subset in _SUBSETS))
_RULES: tuple[ResizeRule, ...] = ("bicubic", "bilinear")
_ALL = (
    *(DIGITS, DIGITS_A, DIGITS_R, DIGITS_SKETCH, DIGITS_O, IMAGENET_1K),
    *(*_BOTH_SIDES, IMAGENET_SKETCH, IMAGENET_V2),
    *(_resized(declared, rule) for declared in _BOTH_SIDES for rule in _RULES),
    *(_corrupted(each, severity) for each in COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS for severity in SEVERITIES),
)

DATASETS: Mapping[str, DatasetDeclaration] = {declared.name: declared for declared in _ALL}
