"""Images in arrays, in a fixed order; 8-bit ones are resized as the preprocessing requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.core.shard import DatasetIdentity
from robench.datasets.decoding import resized_pixels
from robench.datasets.in_memory import OrderedImages
from robench.datasets.order import hash_positions
from robench.datasets.user_impl import check_floats, num_channels_of, one_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from robench.declarations.preprocessing import ImagePreprocessing


class ArrayImages(OrderedImages):
    """Images in the order of the ids' SHA-256.

    Args:
        name: of the dataset.
        pixels: (N, H, W, C) uint8, or (N, C, H, W) float32 in [0, 1].
        targets: (N,) class of each, int64.
        fingerprint: content digest.
        num_classes: number of classes.
        preprocessing: resize, crop and interpolation are applied here; mean and std are left to the model. A model of
            several channels is given grey images with equal channels.
        ids: id of each in the order of the arrays; None for ``name/000042`` of example 42.
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
    ) -> None:
        self.num_classes = num_classes
        ids = [f"{name}/{number:06d}" for number in range(len(targets))] if ids is None else ids
        self._order = hash_positions(ids)
        super().__init__(
            DatasetIdentity(name=name, fingerprint=fingerprint, num_examples=len(ids)),
            tuple(ids[position] for position in self._order),
            targets[self._order],
        )
        self._pixels = pixels
        self._is_bytes = pixels.dtype == np.uint8
        self._preprocessing = preprocessing
        found = pixels.shape[3 if self._is_bytes else 1]
        self._repeats = num_channels_of(f"dataset {name!r}", found, preprocessing) // found
        height, width = pixels.shape[1:3] if self._is_bytes else pixels.shape[2:]
        size = one_size(f"dataset {name!r}", [("each image", (width, height))], preprocessing)
        self._is_resized = size != (width, height)
        if self._is_resized and not self._is_bytes:
            check_floats(f"dataset {name!r}", (width, height), preprocessing)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        chosen = self._pixels[self._order[start:stop]]
        if not self._is_bytes:
            return torch.from_numpy(chosen).repeat(1, self._repeats, 1, 1)
        if self._is_resized:
            resized = [
                resized_pixels(each, f"example {example_id}", self._preprocessing)
                for each, example_id in zip(chosen, self._ids[start:stop], strict=True)
            ]
            chosen = np.stack(resized)
        pixels = torch.from_numpy(chosen.repeat(self._repeats, axis=3)).permute(0, 3, 1, 2).contiguous()
        return pixels.to(torch.float32).div_(255)
