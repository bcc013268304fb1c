"""Hill exp(-|x - peak|^2 / 0.32) over points drawn uniformly, in the order of the hashes of their ids."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.order import check_range, checked_index, hash_order

from robench_example_plugin.hill import HILL

if TYPE_CHECKING:
    from robench_example_plugin.hill import Landscape

PEAK = (0.2, -0.2)
WIDTH = 0.32


def heights(points: torch.Tensor) -> torch.Tensor:
    """Return the heights (N,) over points (N, 2)."""
    return torch.exp(-(points - torch.tensor(PEAK)).square().sum(1) / WIDTH)


class Hill:
    """Points and heights; see ``robench.core.protocols.Dataset``."""

    def __init__(self, seed: int = 0) -> None:
        self.ids = tuple(hash_order(f"hill/{index:03d}" for index in range(HILL.num_examples or 0)))
        self._points = 2 * torch.rand(len(self.ids), 2, generator=torch.Generator().manual_seed(seed)) - 1
        self._heights = heights(self._points)
        digest = hashlib.sha256(self._points.numpy().tobytes() + self._heights.numpy().tobytes()).hexdigest()
        self.identity = DatasetIdentity(name=HILL.name, fingerprint=digest, num_examples=len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        position = checked_index(index, HILL.name, len(self))
        return self._points[position].clone(), float(self._heights[position])

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop): inputs (B, 2) float32 in [-1, 1], targets (B,) float32."""
        check_range(start, stop, HILL.name, len(self))
        rows = slice(start, stop)
        return Batch(ids=self.ids[rows], inputs=self._points[rows].clone(), targets=self._heights[rows].clone())


def open_landscape(
    declared: Landscape, *, data_root: object, preprocessing: object, decode_workers: int, split: str
) -> Hill:
    """Return the hill, which needs no files."""
    del data_root, preprocessing, decode_workers
    declared.check_split(split)
    return Hill()
