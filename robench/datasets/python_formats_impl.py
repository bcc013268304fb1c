"""Opener of dataset classes of torchvision, or of the user's own."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from robench.core.containment import Contained
from robench.core.errors import DeclarationError, ExampleError, MissingDataError, RobenchError, described
from robench.core.user_code import module_of, what_was_raised
from robench.datasets.decoding import MODES, converted, resized_pixels
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.user import UserDataset
from robench.datasets.user_formats import MapStyle
from robench.datasets.user_impl import (
    check_classes,
    check_floats,
    fingerprint_of,
    num_channels_of,
    numbered_ids,
    one_size,
)
from robench.declarations.preprocessing import ImagePreprocessing


def open_map_style(declared: UserDataset, *, preprocessing: ImagePreprocessing, **unused: object) -> MapStyleImages:
    """Open the items of the class named by the entry."""
    content: MapStyle = declared.content  # type: ignore[assignment]  # the format of this implementation
    title = f"dataset {declared.name!r}"
    items, labels, shapes, digest, has_floats = _read(content, title)
    num_classes = declared.num_classes or int(labels.max(initial=-1)) + 1
    check_classes(declared, labels, num_classes, content.target)
    if has_floats:
        check_floats(title, shapes[0][:2], preprocessing)
    return MapStyleImages(declared, items, labels, shapes, digest, num_classes, preprocessing)


class MapStyleImages(OrderedExamples):
    """Items in the order of the ids' SHA-256; item 42 has the id ``name/000042``.

    ``items`` is the instance of the class (Any, since it is third-party code), ``shapes`` are width, height and number
    of channels of each, and ``digest`` is a SHA-256 over the content of all.
    """

    def __init__(
        self,
        declared: UserDataset,
        items: Any,
        targets: NDArray[np.int64],
        shapes: Sequence[tuple[int, int, int]],
        digest: str,
        num_classes: int,
        preprocessing: ImagePreprocessing,
    ) -> None:
        self.num_classes, self._items, self._preprocessing = num_classes, items, preprocessing
        ids, title = numbered_ids(declared.name, len(targets)), f"dataset {declared.name!r}"
        super().__init__(declared.name, fingerprint_of(declared, items=digest), ids, targets)
        self._num_channels = max(num_channels_of(title, each[2], preprocessing) for each in shapes)
        if others := {each[2] for each in shapes} - {1, self._num_channels}:
            raise DeclarationError(
                f"{title} has images of {min(others)} and of {self._num_channels} channels; give all images one number"
            )
        one_size(title, zip(ids, (each[:2] for each in shapes), strict=True), preprocessing)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        return torch.stack([self._image(position) for position in range(start, stop)])

    def _image(self, position: int) -> torch.Tensor:
        try:
            pixels, _ = _item(self._items, self._order[position])
        except Exception as error:  # code of others
            raise ExampleError(f"example {self.ids[position]} cannot be read: {described(error)}") from error
        if pixels.dtype == np.float32:
            planes = torch.from_numpy(pixels)
        else:
            resized = resized_pixels(pixels, f"example {self.ids[position]}", self._preprocessing)
            planes = torch.from_numpy(resized).permute(2, 0, 1).to(torch.float32).div_(255)
        return planes.expand(self._num_channels, -1, -1).contiguous()


@lru_cache(maxsize=4)
def _read(content: MapStyle, title: str) -> tuple[Any, NDArray[np.int64], tuple[tuple[int, int, int], ...], str, bool]:
    """Return the instance, labels, (width, height, channels), a digest of the content, and whether some are floats."""
    made = getattr(module_of(content.target), content.target.partition(":")[2], None)
    if not callable(made):
        raise DeclarationError(f"{title}: target {content.target!r} is not a class; write package.module:Class")
    try:
        with Contained(keeps_environment=True):
            items = made(**dict(content.arguments))
            count = len(items)
    except Exception as error:  # code of others
        raised = what_was_raised(error)
        raise MissingDataError(f"{title}: {content.target} raised {described(raised)}. Check its arguments") from error
    digest, labels, shapes, has_floats = hashlib.sha256(), list[int](), list[tuple[int, int, int]](), False
    for number in range(count):
        try:
            with Contained(keeps_environment=True):
                pixels, label = _item(items, number)
        except Exception as error:  # code of others
            raised = what_was_raised(error)
            raise MissingDataError(f"{title}: item {number} of {content.target}: {described(raised)}") from error
        is_float = pixels.dtype == np.float32
        has_floats = has_floats or is_float
        height, width, channels = (*pixels.shape[1:], pixels.shape[0]) if is_float else pixels.shape
        shapes.append((width, height, channels))
        labels.append(label)
        digest.update(f"{label} {pixels.dtype} {pixels.shape}\n".encode() + pixels.tobytes())
    return items, np.array(labels, dtype=np.int64), tuple(shapes), digest.hexdigest(), has_floats


def _item(items: Any, number: int) -> tuple[NDArray[Any], int]:
    """Return an item's image, (H, W, C) uint8 or (C, H, W) float32, and its label."""
    item = items[number]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise RobenchError(f"must be a pair of image and label, got {type(item).__name__}")
    image, label = item
    try:
        target = operator.index(label)
    except TypeError:
        raise RobenchError(f"must have a whole number for a label, got {type(label).__name__}") from None
    if not 0 <= target < 2**63:
        raise RobenchError(f"has the label {target}; labels are whole numbers from 0, below 2^63")
    return _pixels(image), target


def _pixels(image: object) -> NDArray[Any]:
    if isinstance(image, Image.Image):
        is_grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I;16")
        pixels = np.array(converted(image, MODES[1 if is_grey else 3]), dtype=np.uint8)
        return pixels[..., None] if is_grey else pixels
    if not isinstance(image, torch.Tensor) or image.ndim != 3 or 0 in image.shape:
        shape = f" {tuple(image.shape)}" if isinstance(image, torch.Tensor) else ""
        wanted = "an image of Pillow's, or a tensor (channels, height, width)"
        raise RobenchError(f"must have {wanted}, got {type(image).__name__}{shape}")
    planes = image.detach().cpu()
    if planes.dtype == torch.uint8:
        return planes.permute(1, 2, 0).contiguous().numpy().copy()
    if not planes.is_floating_point() or not bool(((planes >= 0) & (planes <= 1)).all()):
        raise RobenchError(f"must have uint8 values, or floats in [0, 1], got {planes.dtype} values outside")
    return planes.to(torch.float32).contiguous().numpy().copy()
