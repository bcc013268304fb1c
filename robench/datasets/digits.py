"""Handwritten digits that ship inside scikit-learn: 1,797 real scans, small enough for a laptop's CPU.

Source: UCI Optical Recognition of Handwritten Digits, its test part (Alpaydin & Kaynak 1998), as scikit-learn's
``load_digits``: 8x8 pixels of 0..16. Here each is divided by 16 and enlarged to 32x32 by bilinear interpolation
(half-pixel centres, edges clamped, which is ``align_corners=False``), and has three equal channels.

The source has no split. Ours is stratified, 1,197 train and 600 test, and depends on ids alone. The scans come from
13 writers whom scikit-learn does not tell apart, so the same hand is on both sides: accuracies here are not those of
unseen writers.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # scikit-learn ships no types

from robench.core.errors import UsageError
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.order import check_range, checked_index, stratified_split
from robench.declarations.datasets import DIGITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE: Final = 4
IMAGE_SIZE: Final = 8 * SCALE
SPLITS: Final = ("train", "test")


class Digits:
    """One split of the digits, in the order of the ids' SHA-256.

    Raises:
        UsageError: no such split.
    """

    def __init__(self, split: str = "test") -> None:
        if split not in SPLITS:
            raise UsageError(f"dataset 'digits' has no split {split!r}, only {' and '.join(SPLITS)}")
        source = load_digits()
        labels = {f"digits/{index:04d}": int(label) for index, label in enumerate(source.target)}
        train, test = stratified_split(labels, DIGITS.num_examples)
        self._ids = tuple(train if split == "train" else test)
        positions = [int(example_id.removeprefix("digits/")) for example_id in self._ids]
        self._targets = np.array([labels[example_id] for example_id in self._ids], dtype=np.int64)
        self._pixels = enlarge(source.images[positions])
        self._identity = DatasetIdentity(name=DIGITS.name, fingerprint=self._fingerprint(), num_examples=len(self._ids))

    @property
    def identity(self) -> DatasetIdentity:
        """Name, size, and a SHA-256 over ids, labels and pixels of the split."""
        return self._identity

    @property
    def ids(self) -> tuple[str, ...]:
        """One id an example, such as ``digits/0042``: the position in scikit-learn's order."""
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        position = checked_index(index, DIGITS.name, len(self))
        return self._inputs(position, position + 1)[0], int(self._targets[position])

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, 3, 32, 32) float32 in [0, 1], targets (B,) int64.

        Raises:
            IndexError: empty, or not within the split.
        """
        check_range(start, stop, DIGITS.name, len(self))
        return Batch(
            ids=self._ids[start:stop],
            inputs=self._inputs(start, stop),
            targets=torch.from_numpy(self._targets[start:stop].copy()),
        )

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        # A copy with three channels of its own: a caller may write into what it got.
        return torch.from_numpy(self._pixels[start:stop, None]).repeat(1, 3, 1, 1)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256("\n".join(self._ids).encode())
        digest.update(self._targets.astype("<i8").tobytes())
        digest.update(self._pixels.astype("<f4").tobytes())
        return digest.hexdigest()


def enlarge(images: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return images (N, 8, 8) of 0..16 as (N, 32, 32) in [0, 1], bilinearly interpolated.

    Weights are eighths along each axis, so that a pixel is a whole number of 1024ths: exact in float32, on any machine.
    """
    weights = _eighths(images.shape[-1])
    return ((weights @ images.astype(np.int64) @ weights.T) / (64 * 16)).astype(np.float32)


def _eighths(size: int) -> NDArray[np.int64]:
    """Return (4 * size, size) interpolation weights, in eighths."""
    weights = np.zeros((SCALE * size, size), dtype=np.int64)
    for row in range(SCALE * size):
        # In eighths of a source pixel, the centre of target pixel r lies at 8 * ((r + 1/2) / 4 - 1/2).
        left, right_weight = divmod(2 * row - 3, 8)
        weights[row, max(left, 0)] += 8 - right_weight
        weights[row, min(left + 1, size - 1)] += right_weight
    return weights
