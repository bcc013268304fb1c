"""Measuring loop: run the shards that the store lacks, and store each result."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from robench.core.records import Failure
from robench.scheduling.queue import InTurn, ShardQueue, size_of
from robench.scheduling.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from robench.core.protocols import Executor, Store
    from robench.core.records import Record
    from robench.core.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a run.

    Attributes:
        num_kept_before: number of shards that were in the store; ``num_done`` and ``num_failed`` are of this run.
        num_elsewhere: number of shards that other runs have measured meanwhile.
        result: the latest result, which may be on its way to the store; None at the start.
    """

    num_shards: int
    num_kept_before: int
    num_done: int
    num_failed: int
    num_elsewhere: int = 0
    result: Record | Failure | None = None

    @property
    def num_left(self) -> int:
        """Return the number of shards without a result."""
        return self.num_shards - self.num_kept_before - self.num_done - self.num_elsewhere


def missing(shards: Iterable[Shard], store: Store) -> list[Shard]:
    """Return the shards that the store has no record of, each once, in order."""
    kept = store.keys()
    todo: dict[str, Shard] = {}
    for shard in shards:
        if shard.key not in kept:
            todo.setdefault(shard.key, shard)
    return list(todo.values())


def measure(
    shards: Sequence[Shard],
    executor: Executor,
    store: Store,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    cost: Callable[[Shard], float] = size_of,
    later: Sequence[Shard] = (),
) -> Progress:
    """Measure the shards that the store lacks, store each result, and return how the run ended.

    Several runs on one store share the work: a shard that another one measures is left to it, and taken over if that
    run ends without a result.

    Args:
        shards: what is wanted.
        executor: what measures it.
        store: where results are kept.
        on_progress: called at the start and after each result.
        cost: relative cost of a shard; of each model the most expensive come first.
        later: shards that are measured once no other is left to be taken, such as those of other machines.

    Raises:
        StoreError: a result could not be stored; existing files are unharmed.
    """
    todo = missing([*shards, *later], store)
    num_shards = len({shard.key for shard in (*shards, *later)})
    progress = Progress(num_shards=num_shards, num_kept_before=num_shards - len(todo), num_done=0, num_failed=0)
    on_progress(progress)
    if not todo:
        return progress
    with store.claims() as claims:
        is_in_process = executor.num_workers == 0
        first = {shard.key for shard in shards}
        queues = [[shard for shard in todo if (shard.key in first) == is_first] for is_first in (True, False)]
        work = InTurn([ShardQueue(each, cost, claims, is_alone=is_in_process) for each in queues])

        def keep(result: Record | Failure) -> None:
            store.put(result)
            claims.release(result.shard.key)

        results = executor.execute(work)
        # In this process the next model may end it, with all that waits to be written.
        with Writer(keep, at_once=is_in_process) as writer, _ended(results):
            for result in results:
                writer.put(result)
                progress = replace(
                    progress,
                    num_done=progress.num_done + 1,
                    num_failed=progress.num_failed + isinstance(result, Failure),
                    num_elsewhere=work.num_elsewhere,
                    result=result,
                )
                on_progress(progress)
    return replace(progress, num_elsewhere=work.num_elsewhere)


@contextmanager
def _ended(results: Iterator[Record | Failure]) -> Iterator[None]:
    """End the workers with the block, also after an error, and not when the generator is collected."""
    try:
        yield
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()
