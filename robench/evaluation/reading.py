"""Reading of examples ahead of the model that measures them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.protocols import ReadsAhead

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from robench.core.protocols import Batch, Dataset
    from robench.core.shard import DatasetIdentity, Shard

    # Dataset, start and stop.
    Range = tuple[Dataset, int, int]


class ReadAhead:
    """Dataset of one shard, which begins to read the next examples as soon as some have been read.

    It changes no example: a dataset that cannot read ahead (``core.protocols.ReadsAhead``) is only passed through.

    Args:
        dataset: the shard's dataset.
        shard: what is measured.
        following: returns what is read after the shard, such as the first examples of another one; None for nothing.
    """

    def __init__(self, dataset: Dataset, shard: Shard, following: Callable[[], Range | None]) -> None:
        self._dataset, self._stop, self._following = dataset, shard.stop, following

    @property
    def identity(self) -> DatasetIdentity:
        """Return name, content digest and size."""
        return self._dataset.identity

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        return self._dataset[index]

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop), and begin to read those that follow.

        Raises:
            ExampleError: one of them cannot be read.
        """
        found = self._dataset.batch(start, stop)
        is_last = stop >= self._stop
        following = self._following() if is_last else (self._dataset, stop, min(2 * stop - start, self._stop))
        if following is not None and isinstance(following[0], ReadsAhead):
            following[0].read_ahead(*following[1:])
        return found
