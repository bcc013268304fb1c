"""Base class of datasets of image files in a fixed order, decoded on access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np
import torch

from robench.core.errors import ExampleError
from robench.datasets.decoding import decode, shared_pool
from robench.datasets.in_memory import OrderedImages
from robench.datasets.order import checked_index

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from robench.datasets.decoding import Begun
    from robench.declarations.preprocessing import ImagePreprocessing

T = TypeVar("T")


class DecodedImages(OrderedImages):
    """Base class of datasets of image files; subclasses provide the path of each example.

    Args:
        name, fingerprint, ids, targets: see ``OrderedImages``.
        preprocessing: resize, crop and interpolation are applied here; mean and std are left to the model.
        decode_workers: number of processes that decode, 0 for the current one.
    """

    # Width and height required of every image after that, in pixels; None to compare images within a batch only.
    _size: tuple[int, int] | None = None

    def __init__(
        self,
        name: str,
        fingerprint: str,
        ids: Sequence[str],
        targets: NDArray[np.int64],
        preprocessing: ImagePreprocessing,
        decode_workers: int = 0,
    ) -> None:
        super().__init__(name, fingerprint, ids, targets)
        self._preprocessing = preprocessing
        self._pool = shared_pool(decode_workers)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        position = checked_index(index, self.identity.name, len(self))
        path = self.path(position)
        return _to_unit_range(self._stack([path], [decode(path, self._preprocessing)]))[0], int(self.targets[position])

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        bounds = self, start, stop
        pixels = _LAST.get(bounds)
        if pixels is None:
            paths = [self.path(position) for position in range(start, stop)]
            begun = _NEXT.get(bounds)
            _NEXT.kept = None
            pixels = self._stack(paths, self._pool.decode(paths, self._preprocessing, begun))
            _LAST.kept = bounds, pixels
        return _to_unit_range(pixels)

    def read_ahead(self, start: int, stop: int) -> None:
        """Begin to decode examples [start, stop), as far as they exist, on the decoding processes."""
        bounds = self, start, stop
        if _LAST.get(bounds) is None and _NEXT.get(bounds) is None:
            paths = [self.path(position) for position in range(start, min(stop, len(self)))]
            if (begun := self._pool.begin(paths, self._preprocessing)) is not None:
                _NEXT.kept = bounds, begun

    def close(self) -> None:
        """End the decoding processes, which all datasets share; they restart on the next access."""
        self._pool.close()

    def path(self, position: int) -> Path:
        """Return the path of an example's file."""
        raise NotImplementedError

    def _stack(self, paths: Sequence[Path], decoded: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
        """Return (B, C, H, W) bytes."""
        for path, pixels in zip(paths, decoded, strict=True):
            if self._size is not None and pixels.shape[1::-1] != self._size:
                raise ExampleError(
                    f"image {path} is {_shown(pixels)} pixels after resize and crop, where the first examples of"
                    f" {self.identity.name!r} are {self._size[0]}x{self._size[1]}; give all images one size by"
                    " image_size in the dataset's entry"
                )
            if pixels.shape != decoded[0].shape:
                raise ExampleError(
                    f"images of one batch must have one size: {paths[0]} is {_shown(decoded[0])} pixels, {path} is"
                    f" {_shown(pixels)}. Set resize and crop in the checkpoint's preprocessing"
                )
        return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2).contiguous()


class _OneBatch(Generic[T]):
    """Cache of one batch for all datasets, since a batch of each type of ImageNet-C would be a gigabyte."""

    kept: tuple[tuple[DecodedImages, int, int], T] | None = None

    def get(self, bounds: tuple[DecodedImages, int, int]) -> T | None:
        """Return the cached value of the batch with these bounds, or None."""
        return self.kept[1] if self.kept is not None and self.kept[0] == bounds else None


# Bytes (B, C, H, W), read-only: all conditions on a dataset may read a batch one after the other.
_LAST: Final[_OneBatch[torch.Tensor]] = _OneBatch()
# What was begun for the batch that comes next.
_NEXT: Final[_OneBatch[Begun]] = _OneBatch()


def _shown(pixels: NDArray[np.uint8]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


def _to_unit_range(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.to(torch.float32).div_(255)
