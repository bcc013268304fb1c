"""Which images a folder of ImageNet-1k holds, and of which classes.

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
EXAMPLE_PATH: Final = "imagenet-1k/val/n01440764/ILSVRC2012_val_00000293.JPEG"
IMAGES_PER_CLASS: Final = IMAGENET_1K.num_examples // IMAGENET_1K.num_classes
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


def class_indices() -> Mapping[str, int]:
    """Return the class index of each WordNet id of ImageNet-1k, in the order of ILSVRC 2012 (sorted by id)."""
    wordnet_ids: list[str] = ImageNetInfo("imagenet-1k").label_names()  # type: ignore[no-untyped-call]  # timm's
    return {wordnet_id: index for index, wordnet_id in enumerate(wordnet_ids)}


def find_images(data_root: Path | None) -> dict[str, ImageFile]:
    """Return all images below the first place of ``candidates`` that has class folders, by id; warn of a partial set.

    Raises:
        MissingDataError: nothing there, unreadable, a class that ImageNet-1k does not have, or two images of one id.
    """
    if data_root is None:
        raise MissingDataError(f"dataset 'imagenet-1k' needs a folder. {_how_to_give()}")
    try:
        folder = _find_folder(data_root.expanduser())
        images = _index_images(folder)
    except OSError as error:
        raise MissingDataError(f"cannot read {error.filename} of dataset 'imagenet-1k': {error.strerror}") from error
    if not images:
        raise MissingDataError(
            f"the class folders of dataset 'imagenet-1k' in {folder} hold no image. {_how_to_give()}"
        )
    _warn_of_gaps(images, folder)
    return images


def candidates(data_root: Path) -> tuple[Path, ...]:
    """Return the places where the class folders may be, in the order in which they are tried."""
    own = data_root / str(IMAGENET_1K.folder)
    return (own / "val", own, data_root / "val", data_root)


def _find_folder(data_root: Path) -> Path:
    tried = []
    for place in candidates(data_root):
        if not place.is_dir():
            tried.append(f"  {place}: {'not a folder' if place.exists() else 'absent'}")
        elif _class_folders(place):
            return place
        else:
            loose = sum(1 for _ in _image_paths(place))
            holds = f"{loose:,} images outside class folders" if loose else "no class folders"
            tried.append(f"  {place}: {holds}")
    raise MissingDataError("\n".join(["dataset 'imagenet-1k' not found. Tried:", *tried, _how_to_give()]))


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


def _warn_of_gaps(images: Mapping[str, ImageFile], folder: Path) -> None:
    per_class = Counter(image.target for image in images.values())
    if len(per_class) < IMAGENET_1K.num_classes or set(per_class.values()) != {IMAGES_PER_CLASS}:
        logging.getLogger("robench.datasets").warning(
            "dataset 'imagenet-1k' in %s is not the whole validation set: %s images of %s classes, not %s of %s"
            " with %s each. What is measured on it compares with nothing published",
            folder,
            f"{len(images):,}",
            len(per_class),
            f"{IMAGENET_1K.num_examples:,}",
            IMAGENET_1K.num_classes,
            IMAGES_PER_CLASS,
        )


def _how_to_give() -> str:
    return (
        f"Wanted: DIR/{EXAMPLE_PATH} and so on, {IMAGENET_1K.num_examples:,} images in {IMAGENET_1K.num_classes}"
        " class folders named by WordNet id. Say where with --data-root DIR or the variable ROBENCH_DATA"
    )
