"""Texts of the suites of corruptions and natural shifts.

Corruption suites have a condition for each type and severity, 75 or 95 of them, which nobody should write by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SERIES_TYPES, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BY_TYPE = "mean_error, mean_top1_accuracy, corruption_error, corruption_top1_accuracy"
OF_MASKS = "corrupted_pixel_accuracy, corrupted_class_accuracy, corrupted_mean_iou"
MEAN_ERRORS = f"mean_corruption_error, relative_mean_corruption_error, {BY_TYPE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruptions:
    """One suite over types and severities of corruptions.

    Attributes:
        dataset: of the clean examples, None for any that a run is given; ``domain``: the domain that it must have.
        condition: all but the name of a condition, from its type and severity.
        num_examples: number of first examples of each condition, None for all.
        clean: the clean condition, if it is another than that of ``num_examples``; ``others``: further conditions.
        columns: columns of the suite, empty for all.
        severities: severities of each type; ``batch_size``: number of images per pass; ``task``: of suites without a
            dataset.
    """

    name: str
    comment: str
    title: str
    dataset: str | None
    types: tuple[str, ...]
    metrics: str
    condition: Callable[[str, int], str]
    num_examples: int | None = None
    domain: str | None = None
    severities: tuple[int, ...] = tuple(SEVERITIES)
    batch_size: int = 100
    task: str = "classification"
    clean: str = ""
    others: tuple[str, ...] = ()
    columns: str = ""


def published(corruption: str, severity: int) -> str:
    """Return a condition on the authors' own files."""
    return f"dataset: imagenet-c/{corruption}/{severity}"


def published_small(corruption: str, severity: int) -> str:
    """Return a condition on the authors' own files of CIFAR-10-C."""
    return f"dataset: cifar-10-c/{corruption}/{severity}"


def published_scenes(corruption: str, severity: int) -> str:
    """Return a condition on ADE20K with a corruption that is made of the images before their resize."""
    return f"dataset: ade20k-c/{corruption}/{severity}"


def live(corruption: str, severity: int) -> str:
    """Return a condition that makes the corruption of 224 pixels, and compresses it as the authors' files are."""
    return f"perturbation: {{kind: corruption, type: {corruption}, severity: {severity}, saved_as: jpeg-85}}"


def large(corruption: str, severity: int) -> str:
    """Return a condition that makes the corruption of 224 pixels."""
    return f"perturbation: {{kind: corruption, type: {corruption}, severity: {severity}}}"


def small(corruption: str, severity: int) -> str:
    """Return a condition that makes the corruption of 32 pixels."""
    return f"perturbation: {{kind: corruption, type: {corruption}, severity: {severity}, constants: cifar}}"


def of_series(corruption: str, severity: int) -> str:
    """Return a condition that makes a corruption of time series."""
    return f"perturbation: {{kind: series-corruption, type: {corruption}, severity: {severity}}}"


SUITES_OF_CORRUPTIONS = (
    Corruptions(
        name="imagenet-c",
        comment="The published files: 15 types at 5 severities, in units of AlexNet's errors.",
        title="ImageNet-C, its 15 types at five severities: mCE",
        dataset="imagenet-1k",
        types=COMMON_CORRUPTIONS,
        metrics=f"[{MEAN_ERRORS}]",
        condition=published,
    ),
    Corruptions(
        name="imagenet-c-extra",
        comment="The published files of the 4 extra types, in units of AlexNet's errors: a mean of their own.",
        title="The four extra types of ImageNet-C at five severities: mCE over the four",
        dataset="imagenet-1k",
        types=EXTRA_CORRUPTIONS,
        metrics=f"[{MEAN_ERRORS}]",
        condition=published,
    ),
    Corruptions(
        name="imagenet-c-live",
        comment="Corruptions made here of the clean images: near to ImageNet-C, and never the same.",
        title="ImageNet-C's 15 corruptions made on the fly, saved as JPEG of quality 85: not the published files",
        dataset="imagenet-1k",
        types=COMMON_CORRUPTIONS,
        metrics=f"[{MEAN_ERRORS}]",
        condition=live,
    ),
    Corruptions(
        name="digits-c",
        comment="The digits' own ImageNet-C: 19 types made on the fly, in units of digits-vit's errors.",
        title="19 corruptions of the digits at five severities: mCE over the 15 of ImageNet-C",
        dataset="digits",
        types=(*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS),
        # Relative errors are undefined: defocus does not raise digits-vit's error.
        metrics=f"[mean_corruption_error, {BY_TYPE}]",
        condition=small,
    ),
    Corruptions(
        name="digits-c-extra",
        comment="The 4 extra types of digits-c, in units of digits-vit's errors: a mean of their own.",
        title="The four extra corruptions of the digits at five severities: mCE over the four",
        dataset="digits",
        types=EXTRA_CORRUPTIONS,
        # As of digits-c: Gaussian blur does not raise digits-vit's error.
        metrics=f"[mean_corruption_error, {BY_TYPE}]",
        condition=small,
    ),
    Corruptions(
        name="cifar10-c",
        comment="Corruptions made here of the clean images with CIFAR-10-C's constants: never the published files.",
        title="CIFAR-10-C's 15 corruptions made on the fly, first 2,000 test images: mean error",
        dataset="cifar-10",
        types=COMMON_CORRUPTIONS,
        # No baseline's errors are published for mCE.
        metrics="[mean_error, mean_top1_accuracy, corruption_top1_accuracy]",
        condition=small,
        num_examples=2000,
    ),
    Corruptions(
        name="cifar10-2",
        comment="The primary columns of docs/protocols/cifar10-2.md: PGD as in cifar10-adv.",
        title="CIFAR-10, second edition: clean, worst of PGD and APGD at 1/255, mean accuracy under corruptions",
        dataset="cifar-10",
        types=COMMON_CORRUPTIONS,
        metrics="[top1_accuracy, robust_accuracy, mean_top1_accuracy]",
        condition=small,
        num_examples=1000,
        clean="{name: clean}",
        others=(
            "{name: clean-2000, num_examples: 2000}",
            "{name: pgd-1, num_examples: 2000, perturbation: {kind: pgd, epsilon: 1/255, step_size: 1/1020, "
            "num_steps: 20, random_start: true, stop: at_success}}",
            "{name: apgd-1, num_examples: 2000, perturbation: {kind: apgd, epsilon: 1/255, num_steps: 100, "
            "stop: at_success}}",
        ),
        columns="[clean/top1_accuracy, linf-1/255/robust_accuracy, cifar-10-c-live/mean_top1_accuracy]",
    ),
    Corruptions(
        name="cifar10-c-published",
        comment="The published files of CIFAR-10-C, whole.",
        title="CIFAR-10-C, its 15 types at five severities: mean error",
        dataset="cifar-10",
        types=COMMON_CORRUPTIONS,
        metrics="[mean_error, mean_top1_accuracy, corruption_top1_accuracy]",
        condition=published_small,
    ),
    Corruptions(
        name="corruptions-live",
        comment="Any dataset of small images (--dataset): 15 types made on the fly with CIFAR-10-C's constants.",
        title="15 corruptions at five severities, of images of about 32 pixels: mean error",
        dataset=None,
        types=COMMON_CORRUPTIONS,
        metrics="[mean_error]",
        condition=small,
    ),
    Corruptions(
        name="corruptions-live-224",
        comment="Any dataset of large images (--dataset): 15 types made on the fly with ImageNet-C's constants.",
        title="15 corruptions at five severities, of images of about 224 pixels: mean error",
        dataset=None,
        types=COMMON_CORRUPTIONS,
        metrics="[mean_error]",
        condition=large,
    ),
    Corruptions(
        name="scenes-c",
        comment="The twin's own corrupted ADE20K: 15 types made on the fly at three severities; masks as they are.",
        title="15 corruptions of digit-scenes at three severities, first 100 scenes: mean IoU",
        dataset="digit-scenes",
        types=COMMON_CORRUPTIONS,
        metrics=f"[mean_iou, {OF_MASKS}]",
        condition=small,
        num_examples=100,
        severities=(1, 3, 5),
        batch_size=20,
    ),
    Corruptions(
        name="masks-c",
        comment="Any dataset of images with masks (--dataset): 15 types made on the fly with ImageNet-C's constants.",
        title="15 corruptions at three severities, of images with masks: mean IoU",
        dataset=None,
        types=COMMON_CORRUPTIONS,
        metrics=f"[mean_iou, {OF_MASKS}]",
        condition=large,
        severities=(1, 3, 5),
        batch_size=8,
        task="segmentation",
    ),
    Corruptions(
        name="ade20k-c",
        comment="Corrupted ADE20K as in RPC 6: 15 types; the paper does not print the severity, and 5 is inferred.",
        title="ADE20K with 15 corruptions of severity 5, masks untouched: means over the corruptions",
        dataset="ade20k",
        types=COMMON_CORRUPTIONS,
        metrics=f"[mean_iou, class_accuracy, {OF_MASKS}]",
        condition=published_scenes,
        severities=(5,),
        batch_size=1,
    ),
    Corruptions(
        name="series-c",
        comment="Any dataset of time series (--dataset): 9 types made on the fly.",
        title="9 corruptions at five severities, of time series: mean error",
        dataset=None,
        domain="series",
        types=tuple(SERIES_TYPES),
        metrics="[mean_error, mean_top1_accuracy, corruption_top1_accuracy]",
        condition=of_series,
    ),
)


def texts() -> dict[str, str]:
    """Return the content of each suite by its file name."""
    return {f"{suite.name}.yaml": "".join(f"{line}\n" for line in _lines(suite)) for suite in SUITES_OF_CORRUPTIONS}


def _lines(suite: Corruptions) -> Iterator[str]:
    yield "# yaml-language-server: $schema=../schemas/suite.json"
    yield "# Written by `make suites` from scripts/shift_suites.py."
    yield f"# {suite.comment}"
    yield f"name: {suite.name}"
    yield "version: 1"
    yield f'description: "{suite.title}"'
    yield "seed: 0"
    yield f"task: {suite.task}" if suite.dataset is None else f"dataset: {suite.dataset}"
    if suite.domain is not None:
        yield f"domain: {suite.domain}"
    yield f"batch_size: {suite.batch_size}"
    yield "conditions:"
    number = "" if suite.num_examples is None else f", num_examples: {suite.num_examples}"
    yield f"  - {suite.clean or f'{{name: clean{number}}}'}"
    for condition in suite.others:
        yield f"  - {condition}"
    for corruption in suite.types:
        for severity in suite.severities:
            yield f"  - {{name: {corruption}-{severity}{number}, {suite.condition(corruption, severity)}}}"
    yield f"metrics: {suite.metrics}"
    if suite.columns:
        yield f"columns: {suite.columns}"
