"""Discovery of images and labels in trees of class folders: ImageNet-1k and the datasets with the same classes.

A class is known by its folder's name (a WordNet id such as n01440764) in timm's list of synsets, never by the folder's
position: a missing folder would shift the labels of all that follow.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Final

from timm.data.imagenet_info import ImageNetInfo

from robench.core.errors import MissingDataError
from robench.datasets.base import DatasetBase, PublishedFolder, class_subset
from robench.datasets.imagenet import IMAGENET_1K
from robench.datasets.published import PUBLISHED_SETS, PublishedSet, set_folder

SUFFIXES: Final = frozenset((".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"))
NUM_TRAINING_IMAGES: Final = 1_281_167
_WORDNET_ID: Final = re.compile(r"n\d{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """Image file, whose name has two parts, of the class ``target``, 0..999 in the order of ILSVRC 2012."""

    folder: Path
    stem: str
    suffix: str
    target: int
    num_bytes: int

    @property
    def id(self) -> str:
        """Return class folder and file name without suffix, such as ``n01440764/ILSVRC2012_val_00000293``."""
        return f"{self.folder.name}/{self.stem}"

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.folder / f"{self.stem}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Location of a dataset's class folders, and their expected content.

    Attributes:
        dataset: name of the dataset; ``part``: name of the part in messages.
        places: candidate folders below the data root, in order.
        example: path of one of its images below the data root.
        classes: class index of each class folder, by the folder's name.
        num_images: number of images of all classes; ``images_per_class``: of each, None if classes differ.
        passes_over_others: whether folders of other classes of ImageNet-1k are skipped, since a subset is requested.
        is_trained_on: whether it is used for training only.
    """

    dataset: str
    part: str
    places: tuple[str, ...]
    example: str
    classes: Mapping[str, int]
    num_images: int
    images_per_class: int | None = None
    passes_over_others: bool = False
    is_trained_on: bool = False

    @property
    def title(self) -> str:
        """Return its name in messages."""
        dataset = f"dataset {self.dataset!r}"
        return f"{self.part} of {dataset}" if self.is_trained_on else dataset

    @property
    def wanted(self) -> str:
        """Return the expected number of images, in words."""
        each = f" with {self.images_per_class} each" if self.images_per_class else ""
        return f"{self.num_images:,} of {len(self.classes)}{each}"

    @property
    def has_numbered_classes(self) -> bool:
        """Return whether class folders are named 0, 1, 2, ... instead of by WordNet id."""
        return "0" in self.classes


def class_indices() -> dict[str, int]:
    """Return the class index of each WordNet id of ImageNet-1k, in the order of ILSVRC 2012 (sorted by id)."""
    wordnet_ids: list[str] = ImageNetInfo("imagenet-1k").label_names()  # type: ignore[no-untyped-call]  # timm's
    return {wordnet_id: index for index, wordnet_id in enumerate(wordnet_ids)}


VALIDATION: Final = Layout(
    dataset="imagenet-1k",
    part="validation set",
    places=("imagenet-1k/val", "imagenet-1k", "val", "."),
    example="imagenet-1k/val/n01440764/ILSVRC2012_val_00000293.JPEG",
    classes=class_indices(),
    num_images=IMAGENET_1K.num_examples,
    images_per_class=50,
)
TRAIN: Final = Layout(
    dataset="imagenet-1k",
    part="training set",
    places=("imagenet-1k/train", "train"),
    example="imagenet-1k/train/n01440764/n01440764_10026.JPEG",
    classes=VALIDATION.classes,
    num_images=NUM_TRAINING_IMAGES,
    is_trained_on=True,
)


def find_images(data_root: Path | None, layout: Layout = VALIDATION) -> dict[str, ImageFile]:
    """Return all images of ``find_folder``'s folder by id; warn if the set is incomplete."""
    try:
        folder = find_folder(data_root, layout)
        images = _index_images(folder, layout)
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of {layout.title}: {error.strerror}") from error
    if not images:
        raise MissingDataError(f"the class folders of {layout.title} in {folder} hold no image. {_how_to_give(layout)}")
    _warn_of_gaps(images, folder, layout)
    return images


def candidates(data_root: Path, layout: Layout = VALIDATION) -> tuple[Path, ...]:
    """Return the candidate places of the class folders, in order."""
    return tuple(data_root / place for place in layout.places)


def find_folder(data_root: Path | None, layout: Layout) -> Path:
    """Return the first candidate that contains class folders."""
    if data_root is None:
        raise MissingDataError(f"{layout.title} needs a folder. {_how_to_give(layout)}")
    tried = []
    for place in candidates(data_root.expanduser(), layout):
        if not place.is_dir():
            tried.append(f"  {place}: {'not a folder' if place.exists() else 'absent'}")
        elif class_folders(place, layout):
            return place
        else:
            loose = sum(1 for _ in images_in(place, target=0))
            holds = f"{loose:,} images outside class folders" if loose else "no class folders"
            tried.append(f"  {place}: {holds}")
    raise MissingDataError(f"{layout.title} not found. Tried:", *tried, _how_to_give(layout))


def class_folders(place: Path, layout: Layout) -> list[Path]:
    """Return the folders named like the dataset's classes, by WordNet id or by number, in that order."""
    name = re.compile(r"\d+") if layout.has_numbered_classes else _WORDNET_ID
    found = [path for path in place.iterdir() if name.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def images_in(folder: Path, target: int) -> Iterator[ImageFile]:
    """Yield the files with the suffix of an image, of class ``target``, in the order of the file system."""
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, dot, ending = entry.name.rpartition(".")
            suffix = intern(dot + ending)
            # Copying from a Mac leaves files such as ._x.JPEG beside the images.
            if suffix.lower() in SUFFIXES and not entry.name.startswith(".") and not entry.is_dir():
                size = entry.stat().st_size
                yield ImageFile(folder=folder, stem=stem, suffix=suffix, target=target, num_bytes=size)


def is_text(name: str) -> bool:
    """Return whether a file's name is UTF-8, as required for ids, digests and records."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def misnamed(path: Path) -> str:
    """Return the message for an image whose name is not UTF-8."""
    return f"the name of the image {path.name!r} in {path.parent} is not UTF-8, as its id must be; rename it"


def _index_images(place: Path, layout: Layout) -> dict[str, ImageFile]:
    images: dict[str, ImageFile] = {}
    for folder in class_folders(place, layout):
        target = layout.classes.get(folder.name)
        if target is None:
            refuse_other_class(folder, layout)
            continue
        for image in images_in(folder, target):
            if not is_text(image.stem):
                raise MissingDataError(misnamed(image.path))
            # All types of ImageNet-C have the same ids, and 95 datasets of 50,000 images are open at once.
            first = images.setdefault(intern(image.id), image)
            if first is not image:
                raise MissingDataError(f"{first.path} and {image.path} are the same example; remove one of them")
    return images


def refuse_other_class(folder: Path, layout: Layout) -> None:
    """Refuse a class folder that is not one of the dataset's, unless a subset is selected."""
    if layout.passes_over_others and folder.name in VALIDATION.classes:
        return
    whose = "ImageNet-1k (timm's synset list of 1,000)"
    if len(layout.classes) < len(VALIDATION.classes):
        whose = f"{layout.dataset} (which has {len(layout.classes)})"
    elif layout.has_numbered_classes:
        whose = f"{layout.dataset} (whose folders are called 0 to {len(layout.classes) - 1})"
    raise MissingDataError(
        f"{folder} is not a class of {whose}. Move it out of {folder.parent}; a set of other classes is another dataset"
    )


def _warn_of_gaps(images: Mapping[str, ImageFile], folder: Path, layout: Layout) -> None:
    per_class = Counter(image.target for image in images.values())
    is_whole = len(per_class) == len(layout.classes) and len(images) == layout.num_images
    if layout.images_per_class is not None:
        is_whole = is_whole and set(per_class.values()) == {layout.images_per_class}
    if not is_whole:
        logging.getLogger("robench.datasets").warning(
            "dataset %r in %s is not the whole %s: %s images of %s classes, not %s. What is %s on it compares with"
            " nothing published",
            layout.dataset,
            folder,
            layout.part,
            f"{len(images):,}",
            len(per_class),
            layout.wanted,
            "trained" if layout.is_trained_on else "measured",
        )


def _how_to_give(layout: Layout) -> str:
    return (
        f"Wanted: DIR/{layout.example} and so on, {layout.num_images:,} images in {len(layout.classes)} class folders"
        f" named by {'number' if layout.has_numbered_classes else 'WordNet id'}. Give DIR by --data-root DIR or the"
        " variable ROBENCH_DATA"
    )


def layout_of(declared: DatasetBase) -> Layout:
    """Return the location of the class folders of a dataset on disk, and their expected content."""
    if not isinstance(declared, PublishedFolder) or declared.folder is None:
        raise ValueError(f"dataset {declared.name!r} has no class folders")
    published = next(each for each in PUBLISHED_SETS.values() if each.folder == set_folder(declared.folder))
    is_of_validation = declared.folder == VALIDATION.dataset
    if is_of_validation and declared.class_subset is None:
        return VALIDATION
    classes = VALIDATION.classes
    if declared.class_subset is not None:
        classes = class_subset(declared.class_subset)
    elif published.has_numbered_classes:
        classes = {str(index): index for index in VALIDATION.classes.values()}
    return Layout(
        dataset=declared.name,
        part="set",
        places=VALIDATION.places if is_of_validation else _places(declared.folder, published),
        example=f"{VALIDATION.places[0] if is_of_validation else declared.folder}/{next(iter(classes))}/NAME.JPEG",
        classes=classes,
        num_images=declared.num_examples,
        images_per_class=published.images_per_class,
        passes_over_others=is_of_validation,
    )


def _places(folder: str, published: PublishedSet) -> tuple[str, ...]:
    within = folder.removeprefix(published.folder)
    others = published.other_folders
    # Never the data root itself: class folders there belong to ImageNet-1k.
    return (folder, *(f"{published.folder}/{other}{within}" for other in others), *(other + within for other in others))
