"""ImageNet-1k: the ILSVRC 2012 validation images, from a tree of class folders (the layout of ImageFolder).

Source: Russakovsky et al. 2015, arXiv:1409.0575. Two JPEG decoders, and so two releases of Pillow, may differ by a grey
level here and there; that is a matter of provenance, and no part of the fingerprint.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from robench.core.errors import ExampleError
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.decoding import decode
from robench.datasets.decoding_pool import DecodingPool
from robench.datasets.imagenet_folder import find_images
from robench.datasets.order import check_range, checked_index, hash_order
from robench.declarations.datasets import IMAGENET_1K
from robench.declarations.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.datasets.imagenet_folder import ImageFile

USUAL_PREPROCESSING: Final = ImagePreprocessing(
    mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), resize=256, crop=224, interpolation="bicubic"
)


class Imagenet1k:
    """The validation images in the order of the ids' SHA-256, decoded when asked for.

    Args:
        data_root: where to look, see ``imagenet_folder.candidates``.
        preprocessing: resize, crop and interpolation are applied here; mean and std are left to the victim.
        decode_workers: processes that decode, 0 for none beside this one.

    Raises:
        MissingDataError: no images there.
    """

    def __init__(self, data_root: Path | None, preprocessing: ImagePreprocessing, decode_workers: int = 0) -> None:
        images = find_images(data_root)
        self._images = tuple(images[example_id] for example_id in hash_order(images))
        self._ids = tuple(image.id for image in self._images)
        self._preprocessing = preprocessing
        self._pool = DecodingPool(decode_workers)
        self._identity = DatasetIdentity(
            name=IMAGENET_1K.name, fingerprint=_fingerprint(self._images), num_examples=len(self._images)
        )
        # Every condition of a checkpoint reads a shard's images before the next shard's are read.
        self._last: tuple[tuple[int, int], torch.Tensor] | None = None

    @property
    def identity(self) -> DatasetIdentity:
        """Name, size, and a SHA-256 over id, suffix and file size of every image, sorted by id.

        The images themselves are not read for it, which would take minutes: a copy that was encoded anew is noticed
        by its sizes, a changed pixel in a file of the same size is not.
        """
        return self._identity

    @property
    def ids(self) -> tuple[str, ...]:
        """One id an example, such as ``n01440764/ILSVRC2012_val_00000293``."""
        return self._ids

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self._images[checked_index(index, IMAGENET_1K.name, len(self))]
        return _to_unit_range(_stack([image], [decode(image.path, self._preprocessing)]))[0], image.target

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, 3, H, W) float32 in [0, 1], targets (B,) int64.

        Raises:
            ExampleError: one cannot be read, or they differ in size.
            IndexError: empty, or not within the dataset.
        """
        check_range(start, stop, IMAGENET_1K.name, len(self))
        return Batch(
            ids=self._ids[start:stop],
            inputs=_to_unit_range(self._decoded(start, stop)),
            targets=torch.tensor([image.target for image in self._images[start:stop]], dtype=torch.int64),
        )

    def close(self) -> None:
        """End the decoding processes; the dataset stays usable, and starts new ones where it needs them."""
        self._pool.close()

    def _decoded(self, start: int, stop: int) -> torch.Tensor:
        if self._last is None or self._last[0] != (start, stop):
            images = self._images[start:stop]
            decoded = self._pool.decode([image.path for image in images], self._preprocessing)
            self._last = (start, stop), _stack(images, decoded)
        return self._last[1]


def _stack(images: Sequence[ImageFile], decoded: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
    """Return (B, 3, H, W) bytes."""
    for image, pixels in zip(images, decoded, strict=True):
        if pixels.shape != decoded[0].shape:
            sizes = [f"{shape[1]}x{shape[0]}" for shape in (decoded[0].shape, pixels.shape)]
            raise ExampleError(
                f"images of one batch must have one size: {images[0].path} is {sizes[0]} pixels, {image.path} is"
                f" {sizes[1]}. Set resize and crop in the checkpoint's preprocessing"
            )
    return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2).contiguous()


def _to_unit_range(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.to(torch.float32).div_(255)


def _fingerprint(images: Iterable[ImageFile]) -> str:
    lines = sorted(f"{image.id}\t{image.path.suffix}\t{image.num_bytes}\n" for image in images)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
