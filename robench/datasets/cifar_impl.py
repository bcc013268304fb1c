"""Openers of CIFAR-10 and CIFAR-100, of users' copies of their test images, and of CIFAR-10-C and CIFAR-100-C."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

import numpy as np

from robench.core.errors import MissingDataError
from robench.datasets.array_images import ArrayImages
from robench.datasets.base import TEST_SPLIT
from robench.datasets.cifar_arrays import (
    IMAGE_SHAPE,
    CifarImages,
    content_digest,
    load_array,
    load_prepared,
    problems_of,
)
from robench.datasets.cifar_forms import find_form, images_of, label_files, places_in, read_part
from robench.datasets.user_impl import AS_THEY_ARE, check_classes, fingerprint_of

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.cifar import Cifar10, CifarFiles, CifarPart, CorruptedCifar, PublishedCifar
    from robench.datasets.user import UserDataset
    from robench.declarations.preprocessing import ImagePreprocessing

LABELS_FILE: Final = "labels.npy"
NUM_SEVERITIES: Final = 5


def open_published(
    declared: PublishedCifar,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> ArrayImages:
    """Open a split of the prepared arrays, whose pixels stay on disk until they are read.

    Raises:
        UsageError: there is no such split.
        MissingDataError: the arrays are absent, damaged or not as published.
    """
    del decode_workers  # No image file is decoded.
    declared.check_split(split)
    images, digest = load_prepared(declared, data_root, split)
    return ArrayImages(
        declared.name,
        pixels=images.pixels,
        targets=images.labels,
        fingerprint=digest,
        num_classes=declared.num_classes,
        preprocessing=preprocessing or AS_THEY_ARE,
        ids=_ids(declared.content, split),
    )


def open_copy(declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int) -> ArrayImages:
    """Open a user's copy of the test images; warn if it differs from the published ones.

    The published images have the ids and the fingerprint of robench's own dataset, others those of their entry.

    Raises:
        MissingDataError: there is no copy, or it cannot be read.
        DeclarationError: labels contradict the entry.
    """
    del decode_workers  # No image file is decoded.
    content: Cifar10 = declared.content  # type: ignore[assignment]  # the format of this implementation
    files, part = content.content, content.content.part(TEST_SPLIT)
    images, where, data = _read_copy(declared.name, content)
    check_classes(declared, images.labels, files.num_classes, where)
    digest = content_digest(files.kind, TEST_SPLIT, images)
    is_published = digest == part.sha256
    if not is_published:
        _warn_of_changes(f"dataset {declared.name!r}: {where}", part, data, len(images.labels))
    return ArrayImages(
        declared.name,
        pixels=images.pixels,
        targets=images.labels,
        fingerprint=digest if is_published else fingerprint_of(declared, sha256=hashlib.sha256(data).hexdigest()),
        num_classes=files.num_classes,
        preprocessing=preprocessing,
        ids=_ids(files, TEST_SPLIT) if is_published else None,
    )


def open_corrupted(
    declared: CorruptedCifar,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> ArrayImages:
    """Open one severity of a type of corruption, with the ids of the same images without it.

    Raises:
        UsageError: there is no such split.
        MissingDataError: an array is absent, damaged or of another shape, or labels are not those of the test images.
    """
    del decode_workers  # No image file is decoded.
    declared.check_split(split)
    images = load_corrupted(declared, data_root)
    part_name = f"{declared.corruption} {declared.severity}"
    return ArrayImages(
        declared.name,
        pixels=images.pixels,
        targets=images.labels,
        fingerprint=content_digest(declared.content.kind, part_name, images),
        num_classes=declared.num_classes,
        preprocessing=preprocessing or AS_THEY_ARE,
        ids=_ids(declared.content, split),
    )


def load_corrupted(declared: CorruptedCifar, data_root: Path | None) -> CifarImages:
    """Return the images of one severity, mapped into memory; see ``open_corrupted``."""
    archive = f"{declared.folder}.tar"
    set_name = declared.name.partition("/")[0]
    if data_root is None:
        raise MissingDataError(
            f"dataset {declared.name!r} needs a folder. Give it with --data-root DIR or the variable ROBENCH_DATA, and"
            f" fill it with 'robench data prepare {set_name} --archive {archive}'"
        )
    folder = data_root.expanduser() / declared.folder
    images_path, labels_path = folder / f"{declared.corruption}.npy", folder / LABELS_FILE
    if tried := problems_of(images_path, labels_path):
        raise MissingDataError(
            f"dataset {declared.name!r} not found. Tried:",
            *tried,
            f"Run 'robench data prepare {set_name} --archive {archive} --data-root {data_root}' with the published"
            " archive ('robench data list' says where it is)",
        )
    part = declared.content.part(TEST_SPLIT)
    advice = f"Unpack {archive} again"
    total = NUM_SEVERITIES * part.num_images
    pixels = load_array(images_path, np.uint8, (total, *IMAGE_SHAPE), declared.name, advice)
    labels = load_array(labels_path, np.integer, (total,), declared.name, advice)
    rows = slice((declared.severity - 1) * part.num_images, declared.severity * part.num_images)
    images = CifarImages(pixels=pixels[rows], labels=labels[rows].astype(np.int64))
    _check_labels(labels_path, images, declared)
    return images


def _ids(files: CifarFiles, split: str) -> list[str]:
    return [f"{files.name}/{split}/{number:05d}" for number in range(files.part(split).num_images)]


def _read_copy(name: str, content: Cifar10) -> tuple[CifarImages, str, bytes]:
    """Return the images of a user's copy, the path of their file, and the bytes that were read."""
    files, part = content.content, content.content.part(TEST_SPLIT)
    found = find_form(places_in(content.place), files, [TEST_SPLIT]) if content.place.is_dir() else None
    if found is None:
        wanted = f"{files.folders[0]}/{part.python[0][0]} or {files.folders[1]}/{part.binary[0]}"
        raise MissingDataError(
            f"dataset {name!r}: the test images are not in {content.place}. Wanted {wanted} there; unpack the archive"
            f" {files.python_archive.url}"
        )
    place, form = found
    read = place.read([*images_of(part, form), *label_files(part, form)])
    images = read_part(read, form, files, part, lambda each: f"dataset {name!r}: {place.title(each)}")
    return images, place.title(images_of(part, form)[0]), b"".join(read.values())


def _warn_of_changes(title: str, part: CifarPart, data: bytes, num_images: int) -> None:
    # Where no digest of the content is known, the MD5 of the Python version is; the binary one has none.
    md5 = part.python[0][1]
    if part.sha256 is None and (
        hashlib.md5(data, usedforsecurity=False).hexdigest() == md5
        or (title.endswith(part.binary[0]) and num_images == part.num_images)
    ):
        return
    found = f"{num_images:,} images" + (" with other pixels or labels" if num_images == part.num_images else "")
    logging.getLogger("robench.datasets").warning(
        "%s is not the published file: it has %s, wanted the %s published ones. What is measured on it compares with"
        " nothing published",
        title,
        found,
        f"{part.num_images:,}",
    )


def _check_labels(path: Path, images: CifarImages, declared: CorruptedCifar) -> None:
    wanted = declared.content.part(TEST_SPLIT).labels_sha256
    found = hashlib.sha256(images.labels.astype("<i8").tobytes()).hexdigest()
    is_in_range = images.labels.min() >= 0 and images.labels.max() < declared.num_classes
    if not is_in_range or wanted not in (None, found):
        raise MissingDataError(
            f"dataset {declared.name!r}: {path} has other labels than the test images of {declared.clean!r}. Unpack"
            f" {declared.folder}.tar again"
        )
