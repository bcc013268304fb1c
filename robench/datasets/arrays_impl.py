"""Datasets in arrays, in a fixed order: images, inputs of other domains, and the opener of npz files."""

import hashlib
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.errors import (
    ContractError,
    DeclarationError,
    ExampleError,
    MissingDataError,
    described,
)
from robench.core.files import open_regular
from robench.core.protocols import Dataset
from robench.datasets.base import TEST_SPLIT
from robench.datasets.decoding import resized_pixels
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.masks_impl import MaskRule
from robench.datasets.series_formats_impl import LabelledSeries, opened_split, series_of_array
from robench.datasets.uea import TRAIN_SPLIT
from robench.datasets.user import UserDataset
from robench.datasets.user_formats import Arrays
from robench.datasets.user_impl import (
    check_classes,
    check_floats,
    fingerprint_of,
    num_channels_of,
    numbered_ids,
    one_size,
    reading,
    refuse_crop,
)
from robench.declarations.preprocessing import ImagePreprocessing, PreprocessingBase
from robench.domains import DOMAINS
from robench.domains.images import IMAGES
from robench.domains.series import SERIES
from robench.tasks.segmentation import SEGMENTATION

# Grey, colour, and colour with transparency: an array with such an axis elsewhere has its axes in another order.
USUAL_CHANNELS = (1, 3, 4)


class ArrayImages(OrderedExamples):
    """Images in the order of the ids' SHA-256; 8-bit ones are resized as the preprocessing requires.

    ``pixels`` are (N, H, W, C) uint8, or (N, C, H, W) float32 in [0, 1]; a model of several channels is given grey ones
    with equal channels. Mean and std are left to the model. Without ``ids``, example 42 has the id ``name/000042``.
    Targets are (N,) classes, or with ``task`` (N, ...) of another task.
    """

    def __init__(
        self,
        name: str,
        *,
        pixels: NDArray[np.uint8] | NDArray[np.float32],
        targets: NDArray[np.int64],
        fingerprint: str,
        num_classes: int,
        preprocessing: ImagePreprocessing,
        ids: Sequence[str] | None = None,
        task: str | None = None,
    ) -> None:
        super().__init__(name, fingerprint, numbered_ids(name, len(targets)) if ids is None else ids, targets)
        self.num_classes, self.task = num_classes, task
        self._pixels, self._is_bytes, self._preprocessing = pixels, pixels.dtype == np.uint8, preprocessing
        title = f"dataset {name!r}"
        found = pixels.shape[3 if self._is_bytes else 1]
        self._repeats = num_channels_of(title, found, preprocessing) // found
        height, width = pixels.shape[1:3] if self._is_bytes else pixels.shape[2:]
        self._is_resized = one_size(title, [("each image", (width, height))], preprocessing) != (width, height)
        if self._is_resized and not self._is_bytes:
            check_floats(title, (width, height), preprocessing)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        chosen = self._pixels[self._order[start:stop]]
        if not self._is_bytes:
            return torch.from_numpy(chosen).repeat(1, self._repeats, 1, 1)
        if self._is_resized:
            named = zip(chosen, self.ids[start:stop], strict=True)
            chosen = np.stack([resized_pixels(each, f"example {name}", self._preprocessing) for each, name in named])
        pixels = torch.from_numpy(chosen.repeat(self._repeats, axis=3)).permute(0, 3, 1, 2).contiguous()
        return pixels.to(torch.float32).div_(255)


class ArrayInputs(OrderedExamples):
    """Inputs (N, ...) of any domain of real numbers, which its rules accept; arguments as of ``ArrayImages``."""

    def __init__(
        self,
        declared: UserDataset,
        inputs: NDArray[Any],
        targets: NDArray[np.int64],
        fingerprint: str,
        num_classes: int,
        ids: Sequence[str] | None = None,
    ) -> None:
        name, domain = declared.name, DOMAINS[declared.domain]
        if not np.issubdtype(inputs.dtype, np.floating):
            raise MissingDataError(f"dataset {name!r} must have inputs of floats ({domain.title}), got {inputs.dtype}")
        super().__init__(name, fingerprint, numbered_ids(name, len(targets)) if ids is None else ids, targets)
        self.num_classes, self.domain = num_classes, domain.name
        self._values = inputs[self._order].astype(np.float32)
        try:
            domain.rules.check_clean(torch.from_numpy(self._values), name)
        except ContractError as error:
            raise MissingDataError(str(error)) from error

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        return torch.from_numpy(self._values[start:stop].copy())


class _Arrays(NamedTuple):
    """Arrays of an npz file, their names in it, and its SHA-256."""

    arrays: Sequence[NDArray[Any]]
    names: Sequence[str]
    sha256: str


def open_arrays(
    declared: UserDataset, *, preprocessing: PreprocessingBase, split: str = TEST_SPLIT, **unused: object
) -> Dataset:
    """Open the inputs of an npz file, and of the file of the training split for time series."""
    content: Arrays = declared.content  # type: ignore[assignment]  # the format of this implementation
    if declared.domain == SERIES.name:
        return opened_split(declared, split, lambda path: _read_series(declared, content, path))
    title = f"dataset {declared.name!r}: {content.path}"
    read = _arrays(declared, content, content.path)
    inputs, targets = read.arrays
    if declared.task == SEGMENTATION.name and isinstance(preprocessing, ImagePreprocessing):
        return _with_masks(declared, read, preprocessing)
    labels = checked_labels(targets, len(inputs), f"{title}: {read.names[1]}")
    num_classes = declared.num_classes or int(labels.max(initial=-1)) + 1
    check_classes(declared, labels, num_classes, content.path)
    fingerprint = fingerprint_of(declared, sha256=read.sha256, inputs=read.names[0], targets=read.names[1])
    if declared.domain != IMAGES.name or not isinstance(preprocessing, ImagePreprocessing):
        return ArrayInputs(declared, inputs, labels, fingerprint, num_classes)
    return ArrayImages(
        declared.name,
        pixels=checked_images(inputs, f"{title}: {read.names[0]}"),
        targets=labels,
        fingerprint=fingerprint,
        num_classes=num_classes,
        preprocessing=preprocessing,
    )


def _with_masks(declared: UserDataset, read: _Arrays, preprocessing: ImagePreprocessing) -> ArrayImages:
    """Return images with a mask each, (N, H, W)."""
    content: Arrays = declared.content  # type: ignore[assignment]  # the format of this implementation
    (inputs, targets), (images_name, masks_name) = read.arrays, read.names
    title = f"dataset {declared.name!r}: {content.path}: {masks_name}"
    pixels = checked_images(inputs, f"dataset {declared.name!r}: {content.path}: {images_name}")
    height, width = pixels.shape[1:3] if pixels.dtype == np.uint8 else pixels.shape[2:]
    if targets.shape != (len(pixels), height, width) or not np.issubdtype(targets.dtype, np.integer):
        raise MissingDataError(
            f"{title} must be whole numbers of the shape {(len(pixels), height, width)}, a mask for each image, got"
            f" {targets.dtype} of the shape {targets.shape}"
        )
    refuse_crop(declared.name, preprocessing)
    numbers = targets.astype(np.int64)
    highest = int(np.where(numbers == content.ignore_index, -1, numbers).max(initial=-1))
    rule = MaskRule(num_classes=declared.num_classes or max(2, highest + 1), ignore_index=content.ignore_index)
    try:
        masks = [rule.targets_of(mask, f"{title}: mask {number}") for number, mask in enumerate(numbers)]
    except ExampleError as error:
        raise MissingDataError(str(error)) from error
    if not masks:
        raise MissingDataError(f"{title} has no example; check the path in its entry")
    return ArrayImages(
        declared.name,
        pixels=pixels,
        targets=np.stack(masks),
        fingerprint=fingerprint_of(
            declared, sha256=read.sha256, inputs=images_name, targets=masks_name, ignored=content.ignore_index
        ),
        num_classes=rule.num_classes,
        preprocessing=preprocessing,
        task=declared.task,
    )


def _read_series(declared: UserDataset, content: Arrays, path: str) -> LabelledSeries:
    """Return the series of an npz file."""
    read = _arrays(declared, content, path)
    inputs, targets = read.arrays
    title = f"dataset {declared.name!r}: {path}"
    series = series_of_array(inputs, f"{title}: {read.names[0]}")
    labels = checked_labels(targets, len(series), f"{title}: {read.names[1]}")
    check_classes(declared, labels, max(2, int(labels.max(initial=0)) + 1), path)
    return LabelledSeries(ids=numbered_ids(declared.name, len(series)), series=series, labels=labels.tolist())


def _arrays(declared: UserDataset, content: Arrays, path: str) -> _Arrays:
    """Return inputs and targets of an npz file."""
    title = f"dataset {declared.name!r}: {path}"
    with reading(declared.name, path), open_regular(Path(path)) as file:
        arrays, names = _read(file, title, declared, content)
        file.seek(0)
        return _Arrays(arrays, names, hashlib.file_digest(file, "sha256").hexdigest())


def _read(
    file: BufferedReader, title: str, declared: UserDataset, content: Arrays
) -> tuple[list[NDArray[Any]], list[str]]:
    try:
        archive = np.load(file, allow_pickle=False)
        known = list(archive) if isinstance(archive, np.lib.npyio.NpzFile) else None
    except Exception as error:  # zip and numpy raise many types on broken files
        raise MissingDataError(f"{title} is not an npz file ({described(error)}); write it with numpy.savez") from error
    if known is None:
        raise MissingDataError(f"{title} has a single array; write inputs and labels into one file with numpy.savez")
    wanted = _names(known, title, declared.task, content)
    if missing := [field for field, name in wanted.items() if name not in known]:
        absent = " and ".join(repr(wanted[field]) for field in missing)
        raise DeclarationError(
            f"{title} has no array {absent}. Known: {', '.join(sorted(known)) or 'none'}. Name"
            f" {'it' if len(missing) == 1 else 'them'} by {' and '.join(missing)} in the dataset's entry"
        )
    try:
        return [archive[name] for name in wanted.values()], [*wanted.values()]
    except (Exception, MemoryError) as error:
        raise MissingDataError(
            f"{title}: its arrays cannot be read without pickle ({described(error)}); save arrays of numbers"
        ) from error


def _names(known: Sequence[str], title: str, task: str, content: Arrays) -> dict[str, str]:
    """Return the arrays' names by the fields of the entry: as stated, the default ones, or the only usual pair."""
    names = {"inputs": content.inputs or "inputs", "targets": content.targets or "targets"}
    if all(name in known for name in names.values()):
        return names
    what = "masks" if task == SEGMENTATION.name else "labels"
    usual = [("images", what), ("x", "y"), ("X", "y")]
    # A file of series may be of either split.
    for split in (TEST_SPLIT,) if content.train is None else (TEST_SPLIT, TRAIN_SPLIT):
        usual += [(f"{split}_images", f"{split}_{what}"), *((f"{x}_{split}", f"y_{split}") for x in "xX")]
    found = [
        pair
        for pair in usual
        if {*pair} <= {*known} and content.inputs in (None, pair[0]) and content.targets in (None, pair[1])
    ]
    if len(found) > 1:
        raise DeclarationError(
            f"{title} has several pairs of arrays, {', '.join(' and '.join(pair) for pair in found)}; state inputs and"
            " targets in the dataset's entry"
        )
    return dict(zip(names, found[0], strict=True)) if found else names


def checked_images(images: NDArray[Any], title: str) -> NDArray[np.uint8] | NDArray[np.float32]:
    """Return images as (N, H, W, C) uint8 or (N, C, H, W) float32 in [0, 1]; refuse all others."""
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


def checked_labels(labels: NDArray[Any], num_examples: int, title: str) -> NDArray[np.int64]:
    """Return labels (N,) or (N, 1) as (N,) int64; refuse another shape or type, and what int64 cannot hold."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (num_examples,) or not np.issubdtype(labels.dtype, np.integer):
        raise MissingDataError(
            f"{title} must be {num_examples} whole numbers, one an example, got {labels.dtype} of the shape"
            f" {labels.shape}"
        )
    if (highest := int(labels.max(initial=0))) > np.iinfo(np.int64).max:
        raise MissingDataError(f"{title} has the label {highest}; labels are whole numbers from 0, below 2^63")
    return labels.astype(np.int64)
