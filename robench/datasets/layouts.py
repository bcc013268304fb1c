"""Layouts of the datasets in class folders, derived from their declarations and published form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.datasets.base import PublishedFolder
from robench.datasets.class_subsets import class_subset
from robench.datasets.imagenet_folder import VALIDATION, Layout
from robench.datasets.published import PUBLISHED_SETS, set_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.datasets.base import DatasetBase
    from robench.datasets.published import PublishedSet


def layout_of(declared: DatasetBase) -> Layout:
    """Return the location of the class folders of a dataset on disk, and their expected content.

    Raises:
        ValueError: the dataset is embedded in a library, or of texts.
    """
    if not isinstance(declared, PublishedFolder) or declared.folder is None:
        raise ValueError(f"dataset {declared.name!r} has no class folders")
    published = next(each for each in PUBLISHED_SETS.values() if each.folder == set_folder(declared.folder))
    if declared.folder == VALIDATION.dataset:
        return _selection(declared)
    classes = _classes(declared, published)
    return Layout(
        dataset=declared.name,
        part="set",
        places=_places(declared.folder, published),
        example=f"{declared.folder}/{next(iter(classes))}/NAME.JPEG",
        classes=classes,
        num_images=declared.num_examples,
        images_per_class=published.images_per_class,
    )


def _selection(declared: PublishedFolder) -> Layout:
    """Return the layout of the ImageNet-1k validation images, or of a subset of their classes."""
    if declared.class_subset is None:
        return VALIDATION
    classes = class_subset(declared.class_subset)
    return replace(
        VALIDATION,
        dataset=declared.name,
        part="set",
        example=f"{VALIDATION.places[0]}/{next(iter(classes))}/NAME.JPEG",
        classes=classes,
        num_images=declared.num_examples,
        passes_over_others=True,
    )


def _places(folder: str, published: PublishedSet) -> tuple[str, ...]:
    within = folder.removeprefix(published.folder)
    others = published.other_folders
    # Never the data root itself: class folders there belong to ImageNet-1k.
    return (folder, *(f"{published.folder}/{other}{within}" for other in others), *(other + within for other in others))


def _classes(declared: PublishedFolder, published: PublishedSet) -> Mapping[str, int]:
    if declared.class_subset is not None:
        return class_subset(declared.class_subset)
    if published.has_numbered_classes:
        return {str(index): index for index in VALIDATION.classes.values()}
    return VALIDATION.classes
