"""Common steps of opening users' datasets, once the files of their format are read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from robench.core.errors import DeclarationError, MissingDataError
from robench.datasets.decoded_images import DecodedImages
from robench.datasets.decoding import size_after, size_of
from robench.declarations.preprocessing import ImagePreprocessing, PreprocessingBase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.core.protocols import Dataset
    from robench.datasets.user import UserDataset

AS_THEY_ARE: Final = ImagePreprocessing(mean=(), std=())
# Number of files whose image sizes are compared on opening; the others are compared when decoded.
NUM_COMPARED: Final = 100


def open_user(
    declared: UserDataset, *, preprocessing: PreprocessingBase | None, decode_workers: int, split: str, **unused: object
) -> Dataset:
    """Open a dataset of a registry, which has its paths; images keep their size unless a resize is declared."""
    declared.check_split(split)
    opener: Callable[..., Dataset] = declared.content.implemented()
    return opener(declared, preprocessing=preprocessing or AS_THEY_ARE, decode_workers=decode_workers)


class FileImages(DecodedImages):
    """Image files below one folder, identified by their relative paths.

    Args:
        declared: the dataset.
        root: folder that paths are relative to.
        names, sizes, targets: relative path of each file, with slashes, its size in bytes, and its class.
        num_classes: number of classes.
        preprocessing, decode_workers: see ``DecodedImages``.
    """

    def __init__(
        self,
        declared: UserDataset,
        *,
        root: Path,
        names: Sequence[str],
        sizes: Sequence[int],
        targets: Sequence[int],
        num_classes: int,
        preprocessing: ImagePreprocessing,
        decode_workers: int,
    ) -> None:
        self.num_classes, self._root = num_classes, root
        applied = sized(declared, preprocessing)
        fingerprint = tree_fingerprint(declared, names, sizes, targets)
        super().__init__(
            declared.name, fingerprint, names, np.asarray(targets, dtype=np.int64), applied, decode_workers
        )
        self._size = _common_size(declared.name, [root / each for each in self.ids[:NUM_COMPARED]], applied)

    def path(self, position: int) -> Path:
        """Return the path of an example's file."""
        return self._root / self.ids[position]


def sized(declared: UserDataset, preprocessing: ImagePreprocessing) -> ImagePreprocessing:
    """Return the preprocessing with the image size stated in the entry, if any."""
    side = declared.image_size
    if side is None:
        return preprocessing
    for field, wanted in (("resize", preprocessing.resize), ("crop", preprocessing.crop)):
        if wanted not in (None, side):
            raise DeclarationError(
                f"dataset {declared.name!r} has image_size {side} in its entry, and the checkpoint's preprocessing"
                f" has {field} {wanted}; leave one of them out"
            )
    return replace(preprocessing, resize=side, crop=side)


def check_classes(declared: UserDataset, targets: NDArray[np.int64], num_classes: int, where: str) -> None:
    """Refuse invalid labels (N,), and fewer than two classes; messages name the file or folder ``where``."""
    title = f"dataset {declared.name!r}"
    if not len(targets):
        raise MissingDataError(f"{title} has no example: {where} is empty. Check the path in its entry")
    low, high = int(targets.min()), int(targets.max())
    if low < 0:
        raise MissingDataError(f"{title} has the label {low} in {where}; labels are whole numbers from 0")
    if high >= num_classes:
        raise DeclarationError(
            f"{title} has the label {high} in {where}, and num_classes is {num_classes}: labels must be 0 to"
            f" {num_classes - 1}. Correct the labels or num_classes"
        )
    if num_classes < 2:
        raise MissingDataError(
            f"{title} has only one class in {where}, and a classifier needs two. Check the labels, or state the"
            " num_classes of the model in its entry"
        )


def numbered_ids(name: str, count: int) -> list[str]:
    """Return the ids ``name/000000`` and so on."""
    return [f"{name}/{number:06d}" for number in range(count)]


def fingerprint_of(declared: UserDataset, **parts: object) -> str:
    """Return a SHA-256 over the dataset's name, format and ``parts``, which are JSON values.

    The name is included, because ids and the order of examples may depend on it.
    """
    text = json.dumps({"name": declared.name, "format": declared.content.kind, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def tree_fingerprint(declared: UserDataset, names: Sequence[str], sizes: Sequence[int], targets: Sequence[int]) -> str:
    """Return a SHA-256 over relative path, size in bytes and label of every file, and the entry's ``image_size``.

    Files are not read, which would take minutes: a changed pixel in a file of the same size is not detected.
    """
    digest = hashlib.sha256()
    for position in sorted(range(len(names)), key=names.__getitem__):
        digest.update(f"{json.dumps(names[position])} {sizes[position]} {targets[position]}\n".encode())
    return fingerprint_of(declared, image_size=declared.image_size, files=digest.hexdigest())


def one_size(
    title: str, sizes: Iterable[tuple[str, tuple[int, int]]], preprocessing: ImagePreprocessing
) -> tuple[int, int] | None:
    """Return the common width and height of images after resize and crop; None if there are none.

    ``sizes`` are the name of each image, with its width and height; ``title`` names the dataset in messages.
    """
    first: tuple[str, tuple[int, int]] | None = None
    for name, (width, height) in sizes:
        after = size_after(width, height, preprocessing)
        if preprocessing.crop is not None and min(after) < preprocessing.crop:
            raise DeclarationError(
                f"{title}: {name} is {after[0]}x{after[1]} pixels after resize {preprocessing.resize}, smaller than"
                f" crop {preprocessing.crop}; the checkpoint's preprocessing must set resize to at least crop"
            )
        if first is None:
            first = name, after
        elif first[1] != after:
            raise DeclarationError(
                f"{title} has images of different sizes: {first[0]} is {first[1][0]}x{first[1][1]} pixels, {name} is"
                f" {after[0]}x{after[1]}. State image_size in its entry, or resize and crop in the checkpoint's"
                " preprocessing"
            )
    return None if first is None else first[1]


def num_channels_of(title: str, found: int, preprocessing: ImagePreprocessing) -> int:
    """Return the number of channels that a model is given: grey images may serve a model of colour."""
    wanted = preprocessing.num_channels
    if wanted is None or wanted == found:
        return found
    if found == 1:
        return wanted
    raise DeclarationError(
        f"{title} has images of {found} channels, and the preprocessing has mean and std of {wanted}: give a model of"
        f" {found} channels, or convert the images"
    )


def check_floats(title: str, size: tuple[int, int], preprocessing: ImagePreprocessing) -> None:
    """Refuse to resize or crop images that are floats."""
    if size_after(*size, preprocessing) != size:
        raise DeclarationError(
            f"{title} has images of {size[0]}x{size[1]} pixels as floats, which are not resized: leave out resize and"
            " crop of the checkpoint's preprocessing, or give uint8 images"
        )


def _common_size(name: str, paths: Sequence[Path], preprocessing: ImagePreprocessing) -> tuple[int, int] | None:
    resize, crop = preprocessing.resize, preprocessing.crop
    if resize is not None and crop is not None and resize >= crop:
        return crop, crop
    # Unreadable images are reported when their shard fails.
    found = ((path, size_of(path)) for path in paths)
    return one_size(f"dataset {name!r}", [(str(path), size) for path, size in found if size], preprocessing)
