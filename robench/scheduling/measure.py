"""Measuring loop: run the shards that the store lacks, and store each result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.records import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from robench.core.protocols import Executor, Store
    from robench.core.records import Record
    from robench.core.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a run; ``result`` is the latest one, None at the start."""

    num_shards: int
    num_kept_before: int
    num_done: int
    num_failed: int
    result: Record | Failure | None = None


def missing(shards: Iterable[Shard], store: Store) -> list[Shard]:
    """Return the shards that the store has no record of, each once, in order."""
    kept = store.keys()
    todo: dict[str, Shard] = {}
    for shard in shards:
        if shard.key not in kept:
            todo.setdefault(shard.key, shard)
    return list(todo.values())


def measure(
    shards: list[Shard],
    executor: Executor,
    store: Store,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Measure the shards that the store lacks, store each result, and return how the run ended.

    Raises:
        StoreError: a result could not be stored; existing files are unharmed.
    """
    todo = missing(shards, store)
    num_shards = len({shard.key for shard in shards})
    progress = Progress(num_shards=num_shards, num_kept_before=num_shards - len(todo), num_done=0, num_failed=0)
    on_progress(progress)
    results = executor.execute(todo)
    try:
        for result in results:
            store.put(result)
            progress = Progress(
                num_shards=num_shards,
                num_kept_before=progress.num_kept_before,
                num_done=progress.num_done + 1,
                num_failed=progress.num_failed + isinstance(result, Failure),
                result=result,
            )
            on_progress(progress)
    finally:
        # An error here must end the workers now, not when the generator is collected.
        close = getattr(results, "close", None)
        if close is not None:
            close()
    return progress
