"""Which images a folder of ImageNet-1k holds, and of which classes: validation images, or training images.

A class is known by its folder's name (a WordNet id such as n01440764) in timm's list of synsets, never by the folder's
position: where one folder is missing, positions shift the labels of all that follow.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from timm.data.imagenet_info import ImageNetInfo

from robench.core.errors import MissingDataError
from robench.declarations.datasets import IMAGENET_1K

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SUFFIXES: Final = frozenset((".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"))
IMAGES_PER_CLASS: Final = IMAGENET_1K.num_examples // IMAGENET_1K.num_classes
NUM_TRAINING_IMAGES: Final = 1_281_167
_WORDNET_ID: Final = re.compile(r"n\d{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """One image on disk.

    Attributes:
        id: class folder and file name without suffix, such as ``n01440764/ILSVRC2012_val_00000293``.
        target: class index, 0..999, in the order of ILSVRC 2012.
    """

    id: str
    path: Path
    target: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One part of the dataset.

    Attributes:
        folder: what its folder is called, beside that of the other split.
        title: what messages call it; ``example``: where one of its images lies, below the data root.
        is_default: class folders that lie in no such folder are of this split.
    """

    folder: str
    title: str
    example: str
    num_images: int
    is_default: bool


VALIDATION: Final = Split(
    folder="val",
    title="validation set",
    example="imagenet-1k/val/n01440764/ILSVRC2012_val_00000293.JPEG",
    num_images=IMAGENET_1K.num_examples,
    is_default=True,
)
TRAIN: Final = Split(
    folder="train",
    title="training set",
    example="imagenet-1k/train/n01440764/n01440764_10026.JPEG",
    num_images=NUM_TRAINING_IMAGES,
    is_default=False,
)


def class_indices() -> Mapping[str, int]:
    """Return the class index of each WordNet id of ImageNet-1k, in the order of ILSVRC 2012 (sorted by id)."""
    wordnet_ids: list[str] = ImageNetInfo("imagenet-1k").label_names()  # type: ignore[no-untyped-call]  # timm's
    return {wordnet_id: index for index, wordnet_id in enumerate(wordnet_ids)}


def find_images(data_root: Path | None, split: Split = VALIDATION) -> dict[str, ImageFile]:
    """Return all images below the first place of ``candidates`` that has class folders, by id; warn of a partial set.

    Raises:
        MissingDataError: nothing there, unreadable, a class that ImageNet-1k does not have, or two images of one id.
    """
    if data_root is None:
        raise MissingDataError(f"dataset 'imagenet-1k' needs a folder. {_how_to_give(split)}")
    try:
        folder = _find_folder(data_root.expanduser(), split)
        images = _index_images(folder)
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of dataset 'imagenet-1k': {error.strerror}") from error
    if not images:
        raise MissingDataError(
            f"the class folders of dataset 'imagenet-1k' in {folder} hold no image. {_how_to_give(split)}"
        )
    _warn_of_gaps(images, folder, split)
    return images


def candidates(data_root: Path, split: Split = VALIDATION) -> tuple[Path, ...]:
    """Return the places where the class folders may be, in the order in which they are tried."""
    own = data_root / str(IMAGENET_1K.folder)
    if not split.is_default:
        return (own / split.folder, data_root / split.folder)
    return (own / split.folder, own, data_root / split.folder, data_root)


def _find_folder(data_root: Path, split: Split) -> Path:
    tried = []
    for place in candidates(data_root, split):
        if not place.is_dir():
            tried.append(f"  {place}: {'not a folder' if place.exists() else 'absent'}")
        elif _class_folders(place):
            return place
        else:
            loose = sum(1 for _ in _image_paths(place))
            holds = f"{loose:,} images outside class folders" if loose else "no class folders"
            tried.append(f"  {place}: {holds}")
    what = "dataset 'imagenet-1k'" if split.is_default else f"{split.title} of dataset 'imagenet-1k'"
    raise MissingDataError("\n".join([f"{what} not found. Tried:", *tried, _how_to_give(split)]))


def _class_folders(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if _WORDNET_ID.fullmatch(path.name) and path.is_dir())


def _image_paths(folder: Path) -> Iterator[Path]:
    # Beside images there are files such as ._x.JPEG, which copying from a Mac leaves behind.
    for path in folder.iterdir():
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and not path.is_dir():
            yield path


def _index_images(place: Path) -> dict[str, ImageFile]:
    indices = class_indices()
    images: dict[str, ImageFile] = {}
    for folder in _class_folders(place):
        if folder.name not in indices:
            raise MissingDataError(
                f"{folder} is not a class of ImageNet-1k (timm's synset list of 1,000). Move it out of {place};"
                " a set of other classes is another dataset"
            )
        for path in _image_paths(folder):
            example_id = f"{folder.name}/{path.stem}"
            if example_id in images:
                raise MissingDataError(f"{images[example_id].path} and {path} are the same example; remove one of them")
            images[example_id] = ImageFile(
                id=example_id, path=path, target=indices[folder.name], num_bytes=path.stat().st_size
            )
    return images


def _warn_of_gaps(images: Mapping[str, ImageFile], folder: Path, split: Split) -> None:
    per_class = Counter(image.target for image in images.values())
    num_classes = IMAGENET_1K.num_classes
    if split.is_default:
        is_whole = len(per_class) == num_classes and set(per_class.values()) == {IMAGES_PER_CLASS}
        wanted = f"{split.num_images:,} of {num_classes} with {IMAGES_PER_CLASS} each. What is measured on it"
    else:
        is_whole = len(per_class) == num_classes and len(images) == split.num_images
        wanted = f"{split.num_images:,} of {num_classes}. What is trained on it"
    if not is_whole:
        logging.getLogger("robench.datasets").warning(
            "dataset 'imagenet-1k' in %s is not the whole %s: %s images of %s classes, not %s compares with nothing"
            " published",
            folder,
            split.title,
            f"{len(images):,}",
            len(per_class),
            wanted,
        )


def _how_to_give(split: Split) -> str:
    return (
        f"Wanted: DIR/{split.example} and so on, {split.num_images:,} images in {IMAGENET_1K.num_classes}"
        " class folders named by WordNet id. Say where with --data-root DIR or the variable ROBENCH_DATA"
    )
