"""Images in a fixed order: their base class, and small images that libraries generate or store, held in memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.errors import DeclarationError
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.order import check_range, checked_index, hash_order
from robench.declarations.preprocessing import ImagePreprocessing, PreprocessingBase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.protocols import Dataset
    from robench.datasets.base import EmbeddedImages


class OrderedImages:
    """Base class of datasets of images, or of inputs of another domain; subclasses provide the inputs.

    Attributes:
        domain: name of the domain; None for images.

    Args:
        identity: name, content digest and size.
        ids: one id per example, in the order of the dataset.
        targets: (N,) class of each, int64, in the same order.
    """

    domain: str | None = None

    def __init__(self, identity: DatasetIdentity, ids: tuple[str, ...], targets: NDArray[np.int64]) -> None:
        self._identity, self._ids, self._targets = identity, ids, targets

    @property
    def identity(self) -> DatasetIdentity:
        """Return name, content digest and size."""
        return self._identity

    @property
    def ids(self) -> tuple[str, ...]:
        """Return one id per example, such as ``digits/0042``."""
        return self._ids

    @property
    def targets(self) -> NDArray[np.int64]:
        """Return (N,) class of each, in the same order."""
        return self._targets

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        position = checked_index(index, self._identity.name, len(self))
        return self._inputs(position, position + 1)[0], int(self._targets[position])

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, ...), such as images (B, C, H, W) in [0, 1]; targets (B,) int64."""
        check_range(start, stop, self._identity.name, len(self))
        return Batch(
            ids=self._ids[start:stop],
            inputs=self._inputs(start, stop),
            targets=torch.from_numpy(self._targets[start:stop].copy()),
            domain=self.domain,
        )

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        """Return inputs [start, stop) as a new tensor (B, ...), float32."""
        raise NotImplementedError


def open_embedded(
    declared: EmbeddedImages,
    *,
    data_root: Path | None,
    preprocessing: PreprocessingBase | None,
    decode_workers: int,
    split: str,
) -> Dataset:
    """Open a split of images, or of other inputs, that are stored in libraries or generated."""
    del data_root, decode_workers  # Nothing is read from image files.
    size = declared.image_size
    asked: dict[str, int | None] = {}
    if isinstance(preprocessing, ImagePreprocessing):
        asked = {"resize": preprocessing.resize, "crop": preprocessing.crop}
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
        # A copy with three separate channels, since a caller may write into it.
        return torch.from_numpy(self._pixels[start:stop]).repeat(1, 3 // self._pixels.shape[1], 1, 1)


def _fingerprint(ids: tuple[str, ...], targets: NDArray[np.int64], pixels: NDArray[np.float32]) -> str:
    digest = hashlib.sha256("\n".join(ids).encode())
    digest.update(targets.astype("<i8").tobytes())
    digest.update(pixels.astype("<f4").tobytes())
    return digest.hexdigest()
