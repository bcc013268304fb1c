"""Small images that are made or found within libraries, and held in memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.errors import DeclarationError
from robench.core.shard import DatasetIdentity
from robench.datasets.order import hash_order
from robench.datasets.ordered_images import OrderedImages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.core.protocols import Dataset
    from robench.datasets.base import EmbeddedImages
    from robench.declarations.preprocessing import ImagePreprocessing


def open_embedded(
    declared: EmbeddedImages,
    *,
    data_root: Path | None,
    preprocessing: ImagePreprocessing | None,
    decode_workers: int,
    split: str,
) -> Dataset:
    """Return a split of images that are inside libraries, as numbers or as fonts.

    Raises:
        DeclarationError: the preprocessing wants images of another size.
        UsageError: there is no such split.
    """
    del data_root, decode_workers  # Nothing is read from image files.
    size = declared.image_size
    asked = {} if preprocessing is None else {"resize": preprocessing.resize, "crop": preprocessing.crop}
    for field, side in asked.items():
        if side not in (None, size):
            raise DeclarationError(
                f"dataset {declared.name!r} has images of {size}x{size} pixels and no other: {field} of the"
                f" checkpoint's preprocessing must be left out, got {side}"
            )
    declared.check_split(split)
    return declared.made(split)


class InMemoryImages(OrderedImages):
    """Images in the order of the ids' SHA-256.

    Args:
        name: of the dataset.
        targets: class of each example, by id.
        pixels: (C, H, W) values in [0, 1] of each example, by id; C is 3, or 1 for three equal channels.
    """

    def __init__(self, name: str, targets: Mapping[str, int], pixels: Mapping[str, NDArray[np.float32]]) -> None:
        ids = tuple(hash_order(targets))
        classes = np.array([targets[example_id] for example_id in ids], dtype=np.int64)
        self._pixels = np.stack([pixels[example_id] for example_id in ids])
        fingerprint = _fingerprint(ids, classes, self._pixels)
        super().__init__(DatasetIdentity(name=name, fingerprint=fingerprint, num_examples=len(ids)), ids, classes)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        # A copy with three channels of its own: a caller may write into what it got.
        return torch.from_numpy(self._pixels[start:stop]).repeat(1, 3 // self._pixels.shape[1], 1, 1)


def _fingerprint(ids: tuple[str, ...], targets: NDArray[np.int64], pixels: NDArray[np.float32]) -> str:
    digest = hashlib.sha256("\n".join(ids).encode())
    digest.update(targets.astype("<i8").tobytes())
    digest.update(pixels.astype("<f4").tobytes())
    return digest.hexdigest()
