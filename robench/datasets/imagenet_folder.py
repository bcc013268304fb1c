"""Images and labels of ImageNet-1k and the datasets with the same classes: where they are, and those in class folders.

A class is known by its folder's name (a WordNet id such as n01440764) in timm's list of synsets, never by the folder's
position: a missing folder would shift the labels of all that follow. Other forms than folders are in
``imagenet_forms``.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from sys import intern
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from timm.data.imagenet_info import ImageNetInfo

from robench.core.errors import MissingDataError
from robench.datasets.base import DatasetBase, PublishedFolder, class_subset
from robench.datasets.imagenet import ARCHIVE_OF, IMAGENET_1K
from robench.datasets.packed_images import Packed, Stored
from robench.datasets.published import PUBLISHED_SETS, PublishedSet, set_folder

SUFFIXES: Final = frozenset((".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"))
NUM_TRAINING_IMAGES: Final = 1_281_167
CLASS_FOLDERS: Final = "class folders"
_NUMBER: Final = re.compile(r"\d+")
_WORDNET_ID: Final = re.compile(r"n\d{8}")


class Listed(NamedTuple):
    """Image of a class as listed: file name in two parts, size in bytes and, inside a file, which one and where."""

    folder: str
    stem: str
    suffix: str
    num_bytes: int
    shard: int = 0
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageSource:
    """Images of a dataset in one form, in any order: ids, sizes and labels, and the place of each.

    Attributes:
        form: name of the form, such as ``class folders``.
        place: folder of the images or of their archives, or the only archive.
        ids: class folder and file name without suffix, such as ``n01440764/ILSVRC2012_val_00000293``.
        suffixes: endings of the files' names, with the dot.
        sizes: (N,) sizes in bytes; ``targets``: (N,) classes, 0..999 in the order of ILSVRC 2012; both int64.
        is_named: whether the ids have the published names of files, as class folders do.
        pattern: path of an image's file in ``place``.
        shards: files that hold the images instead; ``shard_of``: (N,) position of each one's in them; ``starts``: (N,)
            place in it, see ``Packed``; both int64.
    """

    form: str
    place: Path
    ids: tuple[str, ...]
    suffixes: tuple[str, ...]
    sizes: NDArray[np.int64]
    targets: NDArray[np.int64]
    is_named: bool
    pattern: str
    shards: tuple[Path, ...]
    shard_of: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def stored(self, number: int) -> Stored:
        """Return the place of an image."""
        folder, _, stem = self.ids[number].partition("/")
        suffix = self.suffixes[number]
        if not self.shards:
            return self.place / self.pattern.format(folder=folder, stem=stem, suffix=suffix)
        return Packed(
            file=self.shards[self.shard_of[number]],
            start=int(self.starts[number]),
            num_bytes=int(self.sizes[number]),
            name=f"{folder}/{stem}{suffix}",
        )


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
        archives: patterns of archives below the data root; ``inside``: candidate folders of the class folders in them.
        shards: patterns of Parquet shards.
        devkits: candidate folders of the development kit, if images may be outside class folders.
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
    archives: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    devkits: tuple[str, ...] = ()

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
    archives=("imagenet-1k/*val*.tar", "imagenet-1k/data/*val*.tar"),
    inside=("", "val", "imagenet-1k/val", "imagenet-1k"),
    shards=("imagenet-1k/data/val*.parquet", "imagenet-1k/val*.parquet", "imagenet-1k/val*/*.parquet"),
    devkits=("imagenet-1k", "imagenet-1k/val", "imagenet-1k/data", "."),
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


def candidates(data_root: Path, layout: Layout = VALIDATION) -> tuple[Path, ...]:
    """Return the candidate places of the class folders, in order."""
    return tuple(data_root / place for place in layout.places)


def source_of(
    images: Iterable[Listed],
    layout: Layout,
    *,
    form: str,
    place: Path,
    is_named: bool = True,
    pattern: str = "{folder}/{stem}{suffix}",
    shards: tuple[Path, ...] = (),
) -> ImageSource:
    """Return the listed images of the layout's classes."""
    chosen = [image for image in images if has_class(image.folder, layout, place)]
    source = ImageSource(
        form=form,
        place=place,
        # All types of ImageNet-C have the same ids, and 95 datasets of 50,000 images are open at once.
        ids=tuple(intern(f"{image.folder}/{image.stem}") for image in chosen),
        suffixes=tuple(intern(image.suffix) for image in chosen),
        sizes=np.array([image.num_bytes for image in chosen], dtype=np.int64),
        targets=np.array([layout.classes[image.folder] for image in chosen], dtype=np.int64),
        is_named=is_named,
        pattern=pattern,
        shards=shards,
        shard_of=np.array([image.shard for image in chosen] if shards else [], dtype=np.int64),
        starts=np.array([image.start for image in chosen] if shards else [], dtype=np.int64),
    )
    first: dict[str, int] = {}
    for number, each in enumerate(source.ids):
        if not is_text(each):
            raise MissingDataError(misnamed(Path(str(source.stored(number)))))
        if (other := first.setdefault(each, number)) != number:
            raise MissingDataError(
                f"{source.stored(other)} and {source.stored(number)} are the same example; remove one of them"
            )
    return source


def read_class_folders(place: Path, layout: Layout) -> ImageSource:
    """Return the images of the class folders of a place."""
    folders = [folder for folder in class_folders(place, layout) if has_class(folder.name, layout, place)]
    images = (image for folder in folders for image in images_in(folder))
    return source_of(images, layout, form=CLASS_FOLDERS, place=place)


def class_folders(place: Path, layout: Layout) -> list[Path]:
    """Return the folders named like the dataset's classes, in the order of the classes."""
    found = [path for path in place.iterdir() if is_like_class(path.name, layout) and path.is_dir()]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def is_like_class(name: str, layout: Layout) -> bool:
    """Return whether a folder is named like the dataset's classes, by WordNet id or by number."""
    return bool((_NUMBER if layout.has_numbered_classes else _WORDNET_ID).fullmatch(name))


def images_in(folder: Path) -> Iterator[Listed]:
    """Yield the files with the name of an image in a class folder, in the order of the file system."""
    with os.scandir(folder) as entries:
        for entry in entries:
            parts = name_of_image(entry.name)
            if parts is not None and not entry.is_dir():
                yield Listed(folder.name, *parts, entry.stat().st_size)


def name_of_image(name: str) -> tuple[str, str] | None:
    """Return the stem and suffix of an image's file name; None if it is not one."""
    stem, dot, ending = name.rpartition(".")
    suffix = dot + ending
    # Copying from a Mac leaves files such as ._x.JPEG beside the images.
    return None if suffix.lower() not in SUFFIXES or name.startswith(".") else (stem, suffix)


def is_text(name: str) -> bool:
    """Return whether a file's name is UTF-8, as required for ids, digests and records."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def misnamed(path: Path) -> str:
    """Return the message for an image whose name is not UTF-8."""
    return f"the name of the image {path.name!r} in {path.parent} is not UTF-8, as its id must be; rename it"


def has_class(name: str, layout: Layout, place: Path) -> bool:
    """Return whether a class folder is one of the dataset's; refuse another one, unless a subset is selected."""
    if name in layout.classes:
        return True
    if layout.passes_over_others and name in VALIDATION.classes:
        return False
    whose = "ImageNet-1k (timm's synset list of 1,000)"
    if len(layout.classes) < len(VALIDATION.classes):
        whose = f"{layout.dataset} (which has {len(layout.classes)})"
    elif layout.has_numbered_classes:
        whose = f"{layout.dataset} (whose folders are called 0 to {len(layout.classes) - 1})"
    raise MissingDataError(
        f"{place / name} is not a class of {whose}. Move it out of {place}; a set of other classes is another dataset"
    )


def layout_of(declared: DatasetBase) -> Layout:
    """Return the location of a dataset's images on disk, and their expected content."""
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
    layout = replace(
        VALIDATION,
        dataset=declared.name,
        part="set",
        example=f"{VALIDATION.places[0] if is_of_validation else declared.folder}/{next(iter(classes))}/NAME.JPEG",
        classes=classes,
        num_images=declared.num_examples,
        images_per_class=published.images_per_class,
        passes_over_others=is_of_validation,
    )
    if is_of_validation:
        return layout
    folders = (published.folder, *published.other_folders)
    within = declared.folder.removeprefix(published.folder)
    archives = published.archives if declared.corruption is None else (ARCHIVE_OF[declared.corruption],)
    return replace(
        layout,
        places=_places(declared.folder, published),
        archives=tuple(f"{place}/{name.removesuffix('.gz')}" for place in (*folders, ".") for name in archives),
        # Some archives have a folder of their own name at the top.
        inside=tuple(f"{top}{within}".strip("/") for top in ("", *folders, *(each.split(".")[0] for each in archives))),
        shards=(),
        devkits=(),
    )


def _places(folder: str, published: PublishedSet) -> tuple[str, ...]:
    within = folder.removeprefix(published.folder)
    others = published.other_folders
    # Never the data root itself: class folders there belong to ImageNet-1k.
    return (folder, *(f"{published.folder}/{other}{within}" for other in others), *(other + within for other in others))
