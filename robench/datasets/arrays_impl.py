"""Opener of datasets in npz files, read without pickle."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from robench.core.errors import ContractError, DeclarationError, MissingDataError, described, did_you_mean
from robench.core.files import open_regular
from robench.core.shard import DatasetIdentity
from robench.datasets.array_images import ArrayImages
from robench.datasets.in_memory import OrderedImages
from robench.datasets.order import hash_positions
from robench.datasets.user_impl import check_classes, fingerprint_of
from robench.declarations.preprocessing import ImagePreprocessing, PreprocessingBase
from robench.domains import DOMAINS
from robench.domains.images import IMAGES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import BufferedReader

    from numpy.typing import NDArray

    from robench.core.protocols import Dataset
    from robench.datasets.arrays import Arrays
    from robench.datasets.user import UserDataset

# Grey, colour, and colour with transparency: an array with such an axis elsewhere has its axes in another order.
USUAL_CHANNELS = (1, 3, 4)


def open_arrays(declared: UserDataset, *, preprocessing: PreprocessingBase, decode_workers: int) -> Dataset:
    """Open the inputs of an npz file."""
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
    labels = checked_labels(targets, len(inputs), f"{title}: {content.targets}")
    num_classes = declared.num_classes or int(labels.max(initial=-1)) + 1
    check_classes(declared, labels, num_classes, content.path)
    fingerprint = fingerprint_of(declared, sha256=digest, inputs=content.inputs, targets=content.targets)
    if declared.domain != IMAGES.name or not isinstance(preprocessing, ImagePreprocessing):
        return ArrayInputs(declared, inputs, labels, fingerprint, num_classes)
    return ArrayImages(
        declared.name,
        pixels=checked_images(inputs, f"{title}: {content.inputs}"),
        targets=labels,
        fingerprint=fingerprint,
        num_classes=num_classes,
        preprocessing=preprocessing,
    )


class ArrayInputs(OrderedImages):
    """Inputs of any domain of real numbers, in the order of the ids' SHA-256.

    Args:
        declared: the dataset.
        inputs: (N, ...) numbers.
        targets: (N,) class of each, int64.
        fingerprint: content digest.
        num_classes: number of classes.
        ids: id of each in the order of the inputs; None for ``name/000042`` of example 42.
    """

    def __init__(
        self,
        declared: UserDataset,
        inputs: NDArray[Any],
        targets: NDArray[np.int64],
        fingerprint: str,
        num_classes: int,
        ids: Sequence[str] | None = None,
    ) -> None:
        title, domain = f"dataset {declared.name!r}", DOMAINS[declared.domain]
        if not np.issubdtype(inputs.dtype, np.floating):
            raise MissingDataError(f"{title} must have inputs of floats ({domain.title}), got {inputs.dtype}")
        ids = [f"{declared.name}/{number:06d}" for number in range(len(targets))] if ids is None else ids
        order = hash_positions(ids)
        self.num_classes, self.domain = num_classes, domain.name
        self._values = inputs[order].astype(np.float32)
        try:
            domain.rules.check_clean(torch.from_numpy(self._values), declared.name)
        except ContractError as error:
            raise MissingDataError(str(error)) from error
        identity = DatasetIdentity(name=declared.name, fingerprint=fingerprint, num_examples=len(ids))
        super().__init__(identity, tuple(ids[position] for position in order), targets[order])

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        return torch.from_numpy(self._values[start:stop].copy())


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
    """Return images as (N, H, W, C) uint8 or (N, C, H, W) float32."""
    shape = images.shape
    if images.dtype == np.uint8:
        pixels = images[..., None] if images.ndim == 3 else images
        if pixels.ndim != 4 or 0 in pixels.shape[1:] or _has_its_channels_in(1, not_in=3, shape=pixels.shape):
            wanted = "(N, height, width) or (N, height, width, channels)"
            raise MissingDataError(f"{title} must have the shape {wanted}, got uint8 {shape}")
        return pixels
    if not np.issubdtype(images.dtype, np.floating):
        raise MissingDataError(f"{title} must be uint8, or floats in [0, 1], got {images.dtype}")
    if images.ndim != 4 or 0 in shape[1:] or _has_its_channels_in(3, not_in=1, shape=shape):
        raise MissingDataError(f"{title} must have the shape (N, channels, height, width), got {images.dtype} {shape}")
    # Written so that NaN is outside as well.
    outside = ~((images >= 0) & (images <= 1)).reshape(len(images), -1).all(axis=1)
    if outside.any():
        number = int(outside.argmax())
        value = next(float(each) for each in images[number].ravel() if not 0 <= each <= 1)
        raise MissingDataError(
            f"{title} must lie in [0, 1], got {value:g} in image {number}; divide 8-bit values by 255"
        )
    return images.astype(np.float32)


def _has_its_channels_in(axis: int, *, not_in: int, shape: tuple[int, ...]) -> bool:
    """Return whether a shape has a usual number of channels in one axis, and none in that of the channels."""
    return shape[axis] in USUAL_CHANNELS and shape[not_in] not in USUAL_CHANNELS


def checked_labels(labels: NDArray[Any], num_images: int, title: str) -> NDArray[np.int64]:
    """Return labels as (N,) int64."""
    if labels.shape != (num_images,) or not np.issubdtype(labels.dtype, np.integer):
        raise MissingDataError(
            f"{title} must be {num_images} whole numbers, one an image, got {labels.dtype} of the shape {labels.shape}"
        )
    return labels.astype(np.int64)
