"""Small images that are made or found within libraries, and held in memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.errors import DeclarationError
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.order import check_range, checked_index, hash_order

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


class InMemoryImages:
    """Images in the order of the ids' SHA-256.

    Args:
        name: of the dataset.
        targets: class of each example, by id.
        pixels: (C, H, W) values in [0, 1] of each example, by id; C is 3, or 1 for three equal channels.
    """

    def __init__(self, name: str, targets: Mapping[str, int], pixels: Mapping[str, NDArray[np.float32]]) -> None:
        self._name = name
        self._ids = tuple(hash_order(targets))
        self._targets = np.array([targets[example_id] for example_id in self._ids], dtype=np.int64)
        self._pixels = np.stack([pixels[example_id] for example_id in self._ids])
        self._identity = DatasetIdentity(name=name, fingerprint=self._fingerprint(), num_examples=len(self._ids))

    @property
    def identity(self) -> DatasetIdentity:
        """Name, size, and a SHA-256 over ids, labels and pixels."""
        return self._identity

    @property
    def ids(self) -> tuple[str, ...]:
        """One id an example, such as ``digits/0042``."""
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        position = checked_index(index, self._name, len(self))
        return self._inputs(position, position + 1)[0], int(self._targets[position])

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, 3, H, W) float32 in [0, 1], targets (B,) int64.

        Raises:
            IndexError: empty, or not within the dataset.
        """
        check_range(start, stop, self._name, len(self))
        return Batch(
            ids=self._ids[start:stop],
            inputs=self._inputs(start, stop),
            targets=torch.from_numpy(self._targets[start:stop].copy()),
        )

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        # A copy with three channels of its own: a caller may write into what it got.
        return torch.from_numpy(self._pixels[start:stop]).repeat(1, 3 // self._pixels.shape[1], 1, 1)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256("\n".join(self._ids).encode())
        digest.update(self._targets.astype("<i8").tobytes())
        digest.update(self._pixels.astype("<f4").tobytes())
        return digest.hexdigest()
