"""Openers of CIFAR-10 and CIFAR-100, and of CIFAR-10-C and -100-C; prepared arrays of the former.

Prepared arrays are written once, checked by their digest, and mapped into memory.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError
from robench.datasets.arrays_impl import ArrayImages
from robench.datasets.base import TEST_SPLIT, DatasetBase
from robench.datasets.cifar import CifarFiles, CifarPart, CorruptedCifar, PublishedCifar
from robench.datasets.cifar_forms import (
    IMAGE_SHAPE,
    VALUES,
    CifarImages,
)
from robench.datasets.prepared import check_present, folder_of, load_array, write_arrays
from robench.datasets.user_impl import AS_THEY_ARE
from robench.declarations.preprocessing import ImagePreprocessing

LABEL_BYTES: Final = 8
_HEADER_BYTES: Final = 128
LABELS_FILE: Final = "labels.npy"
NUM_SEVERITIES: Final = 5


def content_digest(kind: str, part: str, images: CifarImages) -> str:
    """Return the SHA-256 of labels and pixels, together with the dataset's kind and the name of the part."""
    digest = hashlib.sha256(f"{kind} {part} {len(images.labels)}\n".encode())
    digest.update(images.labels.astype("<i8").tobytes())
    digest.update(np.ascontiguousarray(images.pixels).data)
    return digest.hexdigest()


def checked_digest(images: CifarImages, files: CifarFiles, part: CifarPart, title: str, advice: str) -> str:
    """Return the digest of a split after checking that it is as published: numbers, labels, and the digest if known.

    ``title`` names the content in messages, and ``advice`` is the sentence that says what to do about another.
    """
    classes, counts = (each.tolist() for each in np.unique(images.labels, return_counts=True))
    per_class = part.num_images // files.num_classes
    is_whole = len(images.pixels) == len(images.labels) == part.num_images
    if not is_whole or classes != [*range(files.num_classes)] or {*counts} != {per_class}:
        found = f"labels from {classes[0]} to {classes[-1]}, {min(counts)} to {max(counts)} of each" if classes else ""
        raise MissingDataError(
            f"{title} has {len(images.pixels):,} images and {len(images.labels):,} {found or 'labels'}; wanted"
            f" {part.num_images:,} images of {files.name!r} with labels from 0 to {files.num_classes - 1},"
            f" {per_class:,} of each. {advice}"
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


def load_prepared(declared: PublishedCifar, data_root: Path | None, split: str) -> tuple[CifarImages, str]:
    """Return a prepared split, its pixels mapped into memory, and its digest."""
    command = f"robench data prepare {declared.name}"
    folder = folder_of(declared, data_root, f", and fill it with '{command}'")
    part = declared.content.part(split)
    labels_path, images_path = (folder / name for name in prepared_files(split))
    prepare = f"'{command} --data-root {data_root}'"
    how = f"Run {prepare}, which downloads it; with --archive FILE it reads a published archive or folder"
    pixels, labels = _mapped(
        declared, (images_path, labels_path), np.int64, part.num_images, how, f"Run {prepare} again"
    )
    images = CifarImages(pixels=pixels, labels=labels.astype(np.int64))
    title = f"dataset {declared.name!r}: {images_path}"
    return images, checked_digest(images, declared.content, part, title, f"Run {prepare} again")


def load_corrupted(declared: CorruptedCifar, data_root: Path | None) -> CifarImages:
    """Return the images of one severity, mapped into memory."""
    archive = f"{declared.folder}.tar"
    command = f"robench data prepare {declared.name.partition('/')[0]} --archive {archive}"
    folder = folder_of(declared, data_root, f", and fill it with '{command}'")
    part = declared.content.part(TEST_SPLIT)
    labels_path = folder / LABELS_FILE
    how = f"Run '{command} --data-root {data_root}' with the published archive ('robench data list' says where it is)"
    total = NUM_SEVERITIES * part.num_images
    images_path = folder / f"{declared.corruption}.npy"
    pixels, labels = _mapped(declared, (images_path, labels_path), np.integer, total, how, f"Unpack {archive} again")
    rows = slice((declared.severity - 1) * part.num_images, declared.severity * part.num_images)
    images = CifarImages(pixels=pixels[rows], labels=labels[rows].astype(np.int64))
    found = hashlib.sha256(images.labels.astype("<i8").tobytes()).hexdigest()
    is_in_range = images.labels.min() >= 0 and images.labels.max() < declared.num_classes
    if not is_in_range or part.labels_sha256 not in (None, found):
        raise MissingDataError(
            f"dataset {declared.name!r}: {labels_path} has other labels than the test images of {declared.clean!r}."
            f" Unpack {archive} again"
        )
    return images


def _mapped(
    declared: DatasetBase, files: tuple[Path, Path], labels_type: type, num_images: int, how: str, advice: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return pixels and labels of two files; ``how`` and ``advice`` say what to do if they are absent or wrong."""
    check_present(declared, files, how)
    return (
        load_array(files[0], np.uint8, (num_images, *IMAGE_SHAPE), declared.name, advice),
        load_array(files[1], labels_type, (num_images,), declared.name, advice),
    )


def bytes_needed(files: CifarFiles) -> int:
    """Return the size of the prepared arrays in bytes."""
    num_images = sum(part.num_images for part in files.parts)
    return num_images * (VALUES + LABEL_BYTES) + 2 * len(files.parts) * _HEADER_BYTES


def write_prepared(folder: Path, found: Mapping[str, CifarImages]) -> int:
    """Write all splits, each file whole, and return the number of files: labels first, so that images have some."""
    arrays: dict[str, NDArray[Any]] = {prepared_files(split)[0]: images.labels for split, images in found.items()}
    arrays |= {prepared_files(split)[1]: images.pixels for split, images in found.items()}
    return write_arrays(folder, arrays)


def open_arrays(
    declared: PublishedCifar | CorruptedCifar,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    split: str,
    **unused: object,
) -> ArrayImages:
    """Open a split, or a severity of a type of corruption, whose pixels stay on disk until they are read.

    Corrupted images have the ids of the same images without corruption.
    """
    declared.check_split(split)
    if isinstance(declared, CorruptedCifar):
        images = load_corrupted(declared, data_root)
        digest = content_digest(declared.content.kind, f"{declared.corruption} {declared.severity}", images)
    else:
        images, digest = load_prepared(declared, data_root, split)
    return ArrayImages(
        declared.name,
        pixels=images.pixels,
        targets=images.labels,
        fingerprint=digest,
        num_classes=declared.num_classes,
        preprocessing=preprocessing or AS_THEY_ARE,
        ids=ids_of(declared.content, split),
    )


def ids_of(files: CifarFiles, split: str) -> list[str]:
    """Return the ids of a split's images in the published order."""
    return [f"{files.name}/{split}/{number:05d}" for number in range(files.part(split).num_images)]
