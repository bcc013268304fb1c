"""Base class of datasets of tensors of one shape, such as images, in a fixed order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.core.protocols import Batch
from robench.datasets.order import check_range, checked_index

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robench.core.shard import DatasetIdentity


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
        """Return examples [start, stop): inputs (B, ...), such as images (B, C, H, W) in [0, 1]; targets (B,) int64.

        Raises:
            ExampleError: one cannot be read, or they differ in size.
            IndexError: empty, or not within the dataset.
        """
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
