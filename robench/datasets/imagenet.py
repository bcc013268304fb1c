"""Declarations of ImageNet-1k, of the datasets with the same classes, and of ImageNet-C.

A name may have parts: ``imagenet-c/gaussian_noise/3`` is one type of ImageNet-C at one severity, and
``imagenet-a/bilinear`` is ImageNet-A resized by another filter than the checkpoint's own. Papers resize ImageNet-A, -R
and -O with either filter (bicubic in the papers' released code, bilinear in that of the sets' authors), and the name
states it.
"""

from dataclasses import replace

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SEVERITIES
from robench.datasets.base import PublishedFolder, ResizeRule

# Published archive of ImageNet-C of each type.
ARCHIVE_OF = {
    **dict.fromkeys(COMMON_CORRUPTIONS[:3], "noise.tar"),
    **dict.fromkeys(COMMON_CORRUPTIONS[3:7], "blur.tar"),
    **dict.fromkeys(COMMON_CORRUPTIONS[7:11], "weather.tar"),
    **dict.fromkeys(COMMON_CORRUPTIONS[11:], "digital.tar"),
    **dict.fromkeys(EXTRA_CORRUPTIONS, "extra.tar"),
}
_VALIDATION = PublishedFolder(
    name="imagenet-1k",
    title="ImageNet ILSVRC 2012 validation images",
    task="classification",
    num_classes=1000,
    num_examples=50_000,
    source="Russakovsky et al. 2015, arXiv:1409.0575; from image-net.org",
    licence="ImageNet terms of access, research only",
    folder="imagenet-1k",
)
IMAGENET_1K = replace(_VALIDATION, has_training_images=True, num_training_examples=1_281_167)
IMAGENET_A = replace(
    _VALIDATION,
    name="imagenet-a",
    title="ImageNet-A: photographs of 200 classes that a ResNet-50 misclassifies",
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
    _VALIDATION,
    name="imagenet-sketch",
    title="ImageNet-Sketch: black-and-white drawings of all classes",
    num_examples=50_889,
    source="Wang et al. 2019, arXiv:1905.13549",
    licence="MIT (code); rights in the drawings are their owners'",
    folder="imagenet-sketch",
)
IMAGENET_V2 = replace(
    _VALIDATION,
    name="imagenet-v2",
    title="ImageNet-V2, matched frequency: the validation set collected anew",
    num_examples=10_000,
    source="Recht et al. 2019, arXiv:1902.10811",
    licence="MIT (code); rights in the photographs are their owners'",
    folder="imagenet-v2",
)


def _same_classes(subset: PublishedFolder) -> PublishedFolder:
    """Return the ImageNet-1k images of a subset's classes, for comparison with its accuracy."""
    return replace(
        _VALIDATION,
        name=f"imagenet-1k-{subset.name.removeprefix('imagenet-')}-classes",
        title=f"ImageNet-1k validation images of the 200 classes of {subset.name}",
        num_examples=10_000,
        class_subset=subset.class_subset,
    )


def _resized(declared: PublishedFolder, rule: ResizeRule) -> PublishedFolder:
    return replace(
        declared, name=f"{declared.name}/{rule}", title=f"{declared.title}; resized {rule}", resize_rule=rule
    )


def _corrupted(corruption: str, severity: int) -> PublishedFolder:
    return replace(
        _VALIDATION,
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
IMAGENET_SETS = (
    *(IMAGENET_1K, *_BOTH_SIDES, IMAGENET_SKETCH, IMAGENET_V2),
    *(_resized(declared, rule) for declared in _BOTH_SIDES for rule in _RULES),
    *(_corrupted(each, severity) for each in COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS for severity in SEVERITIES),
)
