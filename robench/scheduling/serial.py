"""Executor that runs shards one after another in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from robench.core.records import Failure, Record
    from robench.core.shard import Shard


class SerialExecutor:
    """Serial executor, the reference for every other executor (``core.protocols.Executor``)."""

    def __init__(self, evaluator: Callable[[Shard], Record | Failure]) -> None:
        self._evaluator = evaluator
        self._draining = False

    def execute(self, shards: Iterable[Shard]) -> Iterator[Record | Failure]:
        """Yield the result of each shard in the given order."""
        for shard in shards:
            if self._draining:
                return
            yield self._evaluator(shard)

    def drain(self) -> None:
        """Start no further shards."""
        self._draining = True
