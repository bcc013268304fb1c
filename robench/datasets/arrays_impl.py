"""Opener of datasets in npz files, read without pickle."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from robench.core.errors import DeclarationError, MissingDataError, described, did_you_mean
from robench.core.files import open_regular
from robench.datasets.array_images import ArrayImages
from robench.datasets.user_impl import check_classes, fingerprint_of

if TYPE_CHECKING:
    from io import BufferedReader

    from numpy.typing import NDArray

    from robench.datasets.arrays import Arrays
    from robench.datasets.user import UserDataset
    from robench.declarations.preprocessing import ImagePreprocessing


def open_arrays(declared: UserDataset, *, preprocessing: ImagePreprocessing, decode_workers: int) -> ArrayImages:
    """Open the images of an npz file.

    Raises:
        MissingDataError: the file is missing, or its arrays are not images and labels.
        DeclarationError: it lacks the arrays, has classes other than the entry's, or its images must not be resized.
    """
    del decode_workers  # No image file is decoded.
    content: Arrays = declared.content  # type: ignore[assignment]  # the format of this implementation
    title = f"dataset {declared.name!r}: {content.path}"
    try:
        with open_regular(content.place) as file:
            inputs, targets = _read(file, title, content)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise MissingDataError(f"{title} does not exist. Correct path in its entry, or put the file there") from None
    except OSError as error:
        raise MissingDataError(f"cannot read {content.path} of dataset {declared.name!r}: {error.strerror}") from error
    pixels = checked_images(inputs, f"{title}: {content.inputs}")
    labels = checked_labels(targets, len(pixels), f"{title}: {content.targets}")
    num_classes = declared.num_classes or int(labels.max(initial=-1)) + 1
    check_classes(declared, labels, num_classes, content.path)
    return ArrayImages(
        declared.name,
        pixels=pixels,
        targets=labels,
        fingerprint=fingerprint_of(declared, sha256=digest, inputs=content.inputs, targets=content.targets),
        num_classes=num_classes,
        preprocessing=preprocessing,
    )


def _read(file: BufferedReader, title: str, content: Arrays) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        archive = np.load(file, allow_pickle=False)
        names = list(archive) if isinstance(archive, np.lib.npyio.NpzFile) else None
    except Exception as error:  # zip and numpy raise many types on broken files
        raise MissingDataError(f"{title} is not an npz file ({described(error)}); write it with numpy.savez") from error
    if names is None:
        raise MissingDataError(f"{title} has a single array; write images and labels into one file with numpy.savez")
    for field in ("inputs", "targets"):
        if (name := getattr(content, field)) not in names:
            hint = did_you_mean(name, names)
            raise DeclarationError(f"{title} has no array {name!r}.{hint} Name it by {field} in the dataset's entry")
    try:
        return archive[content.inputs], archive[content.targets]
    except (Exception, MemoryError) as error:
        raise MissingDataError(
            f"{title}: its arrays cannot be read without pickle ({described(error)}); save arrays of numbers"
        ) from error


def checked_images(images: NDArray[Any], title: str) -> NDArray[np.uint8] | NDArray[np.float32]:
    """Return images as (N, H, W, C) uint8 or (N, C, H, W) float32; C is 1 or 3.

    Raises:
        MissingDataError: the array has another shape or type, or values that are not in [0, 1].
    """
    shape = images.shape
    if images.dtype == np.uint8:
        pixels = images[..., None] if images.ndim == 3 else images
        if pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or 0 in pixels.shape[1:]:
            wanted = "(N, height, width) or (N, height, width, channels) with 1 or 3 channels"
            raise MissingDataError(f"{title} must have the shape {wanted}, got uint8 {shape}")
        return pixels
    if not np.issubdtype(images.dtype, np.floating):
        raise MissingDataError(f"{title} must be uint8, or floats in [0, 1], got {images.dtype}")
    if images.ndim != 4 or shape[1] not in (1, 3) or 0 in shape[1:]:
        wanted = "(N, channels, height, width) with 1 or 3 channels"
        raise MissingDataError(f"{title} must have the shape {wanted}, got {images.dtype} {shape}")
    # Written so that NaN is outside as well.
    outside = ~((images >= 0) & (images <= 1)).reshape(len(images), -1).all(axis=1)
    if outside.any():
        number = int(outside.argmax())
        value = next(float(each) for each in images[number].ravel() if not 0 <= each <= 1)
        raise MissingDataError(
            f"{title} must lie in [0, 1], got {value:g} in image {number}; divide 8-bit values by 255"
        )
    return images.astype(np.float32)


def checked_labels(labels: NDArray[Any], num_images: int, title: str) -> NDArray[np.int64]:
    """Return labels as (N,) int64.

    Raises:
        MissingDataError: the array has another shape or type.
    """
    if labels.shape != (num_images,) or not np.issubdtype(labels.dtype, np.integer):
        raise MissingDataError(
            f"{title} must be {num_images} whole numbers, one an image, got {labels.dtype} of the shape {labels.shape}"
        )
    return labels.astype(np.int64)
