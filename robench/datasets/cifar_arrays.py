"""Prepared arrays of CIFAR-10 and CIFAR-100: written once, checked by their digest, and mapped into memory."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from robench.core.errors import MissingDataError, described
from robench.core.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.datasets.cifar import CifarFiles, CifarPart, PublishedCifar

SIDE: Final = 32
IMAGE_SHAPE: Final = (SIDE, SIDE, 3)
VALUES: Final = 3 * SIDE * SIDE
LABEL_BYTES: Final = 8
_HEADER_BYTES: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CifarImages:
    """Images of one split in the published order: pixels (N, 32, 32, 3) uint8 and labels (N,) int64."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


def content_digest(kind: str, part: str, images: CifarImages) -> str:
    """Return the SHA-256 of labels and pixels, together with the dataset's kind and the name of the part."""
    digest = hashlib.sha256(f"{kind} {part} {len(images.labels)}\n".encode())
    digest.update(images.labels.astype("<i8").tobytes())
    digest.update(np.ascontiguousarray(images.pixels).data)
    return digest.hexdigest()


def checked_digest(images: CifarImages, files: CifarFiles, part: CifarPart, title: str, advice: str) -> str:
    """Return the digest of a split after checking that it is as published: numbers, labels, and the digest if known.

    Args:
        images: content of the split.
        files: the published files.
        part: the split.
        title: name of the content in messages.
        advice: sentence that says what to do about different content.

    Raises:
        MissingDataError: the content is not as published.
    """
    num_images, num_classes = len(images.labels), files.num_classes
    if num_images != part.num_images or len(images.pixels) != num_images:
        raise MissingDataError(
            f"{title} has {len(images.pixels):,} images and {num_images:,} labels, wanted {part.num_images:,}, the"
            f" {part.split} images of {files.name!r}. {advice}"
        )
    lowest, highest = int(images.labels.min()), int(images.labels.max())
    if lowest < 0 or highest >= num_classes:
        raise MissingDataError(
            f"{title} has labels from {lowest} to {highest}, wanted 0 to {num_classes - 1}, the classes of"
            f" {files.name!r}. {advice}"
        )
    counts = np.bincount(images.labels, minlength=num_classes)
    if (wrong := counts != num_images // num_classes).any():
        label = int(wrong.argmax())
        raise MissingDataError(
            f"{title} has {counts[label]:,} images of class {label}, wanted {num_images // num_classes:,}. {advice}"
        )
    digest = content_digest(files.kind, part.split, images)
    if part.sha256 not in (None, digest):
        raise MissingDataError(
            f"{title} has other images or labels than {files.name!r} as published: its SHA-256 is {digest}, wanted"
            f" {part.sha256}. {advice}"
        )
    return digest


def prepared_files(split: str) -> tuple[str, str]:
    """Return the names of a split's prepared files: labels and images."""
    return f"{split}-labels.npy", f"{split}-images.npy"


def prepared_folder(declared: PublishedCifar, data_root: Path | None) -> Path:
    """Return the folder of the prepared arrays.

    Raises:
        MissingDataError: there is no data root.
    """
    if data_root is None:
        raise MissingDataError(
            f"dataset {declared.name!r} needs a folder. Give it with --data-root DIR or the variable ROBENCH_DATA, and"
            f" fill it with 'robench data prepare {declared.name}'"
        )
    return data_root.expanduser() / str(declared.folder)


def load_prepared(declared: PublishedCifar, data_root: Path | None, split: str) -> tuple[CifarImages, str]:
    """Return a prepared split, its pixels mapped into memory, and its digest.

    Raises:
        MissingDataError: it was not prepared, is damaged, or is not as published.
    """
    folder, files = prepared_folder(declared, data_root), declared.content
    part = files.part(split)
    labels_path, images_path = (folder / name for name in prepared_files(split))
    prepare = f"'robench data prepare {declared.name} --data-root {data_root}'"
    if tried := problems_of(images_path, labels_path):
        raise MissingDataError(
            f"dataset {declared.name!r} not found. Tried:",
            *tried,
            f"Run {prepare}, which downloads it; with --archive FILE it reads a published archive or folder",
        )
    title, advice = f"dataset {declared.name!r}: {images_path}", f"Run {prepare} again"
    images = CifarImages(
        pixels=load_array(images_path, np.uint8, (part.num_images, *IMAGE_SHAPE), declared.name, advice),
        labels=load_array(labels_path, np.int64, (part.num_images,), declared.name, advice).astype(np.int64),
    )
    return images, checked_digest(images, files, part, title, advice)


def problems_of(*paths: Path) -> list[str]:
    """Return a line for each path that is not a file."""
    lines = []
    for path in paths:
        try:
            if not path.is_file():
                lines.append(f"  {path}: {'not a file' if path.exists() else 'absent'}")
        except OSError as error:
            lines.append(f"  {path}: {error.strerror}")
    return lines


def load_array(path: Path, dtype: type, shape: tuple[int, ...], name: str, advice: str) -> NDArray[Any]:
    """Return an array of a file, mapped into memory and read without pickle.

    Args:
        path: file in numpy's format.
        dtype: wanted type; Any in the return type, since it depends on this.
        shape: wanted shape.
        name: name of the dataset in messages.
        advice: sentence that says what to do about another file.

    Raises:
        MissingDataError: the file cannot be read, or has another type or shape.
    """
    title = f"dataset {name!r}: {path}"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises many types on broken files
        raise MissingDataError(f"{title} is damaged or no array ({described(error)}). {advice}") from error
    if not isinstance(array, np.ndarray):
        raise MissingDataError(f"{title} is an archive of arrays, wanted one array. {advice}")
    if not np.issubdtype(array.dtype, dtype) or array.shape != shape or not array.flags.c_contiguous:
        raise MissingDataError(
            f"{title} has an array of {array.dtype} of the shape {array.shape}, wanted {dtype.__name__} of the shape"
            f" {shape}. {advice}"
        )
    return array


def bytes_needed(files: CifarFiles) -> int:
    """Return the size of the prepared arrays in bytes."""
    num_images = sum(part.num_images for part in files.parts)
    return num_images * (VALUES + LABEL_BYTES) + 2 * len(files.parts) * _HEADER_BYTES


def write_prepared(folder: Path, found: Mapping[str, CifarImages]) -> int:
    """Write all splits, each file whole: labels first, so that images without labels never exist.

    Returns:
        the number of files.

    Raises:
        OSError: a file could not be written; none is left in part.
    """
    arrays: dict[str, NDArray[Any]] = {prepared_files(split)[0]: images.labels for split, images in found.items()}
    arrays |= {prepared_files(split)[1]: images.pixels for split, images in found.items()}
    for name, array in arrays.items():
        with replacing(folder / name) as beside, beside.open("wb") as file:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
    return len(arrays)
