"""Measuring loop: hand shards to an executor, and store each result.

A thread stores the results, so that no worker waits for a disk.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from robench.core.protocols import Claims, Executor
from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.scheduling.estimates import Estimates, TimeLeft
from robench.scheduling.queue import InTurn, ShardQueue, size_of

# Results that wait to be written; they are lost, and measured again, if the run is killed.
MAX_WAITING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a run.

    Attributes:
        num_kept_before: number of shards that were in the store; ``num_done`` and ``num_failed`` are of this run.
        num_elsewhere: number of shards that other runs have measured meanwhile.
        num_refused: number of failed shards whose declaration was refused, as it will be again.
        result: the latest result, which may be on its way to the store; None at the start.
        seconds_left: estimate of the rest; None where it is unknown.
    """

    num_shards: int
    num_kept_before: int
    num_done: int
    num_failed: int
    num_elsewhere: int = 0
    num_refused: int = 0
    result: Record | Failure | None = None
    seconds_left: float | None = None

    @property
    def num_left(self) -> int:
        """Return the number of shards without a result."""
        return self.num_shards - self.num_kept_before - self.num_done - self.num_elsewhere


class Watch(Protocol):
    """Watch over a run, which receives its progress and may stop it.

    Attributes:
        filled: latest progress of each part of the run, by title.
    """

    filled: dict[str, Progress]

    @property
    def is_stopped(self) -> bool:
        """Return whether nothing further may begin."""

    def watching(
        self, executor: Executor, num_todo: int, num_shards: int, title: str
    ) -> AbstractContextManager[Callable[[Progress], None]]:
        """Return a context of a callback for the progress of an executor, which is to measure ``num_todo`` shards."""


class Listener:
    """Watch that passes progress to a function, and never stops."""

    is_stopped = False

    def __init__(self, on_progress: Callable[[Progress], None] = lambda progress: None) -> None:
        self.filled: dict[str, Progress] = {}
        self._on_progress = on_progress

    def watching(
        self, executor: Executor, num_todo: int, num_shards: int, title: str
    ) -> AbstractContextManager[Callable[[Progress], None]]:
        """Return the function, as a context."""
        return nullcontext(self._on_progress)


class Results(Protocol):
    """Part of a store (``core.protocols.Store``) that a run needs."""

    def keys(self) -> set[str]:
        """Return the keys of all finished shards."""

    def claims(self) -> Claims:
        """Return claims on shards."""

    def put(self, result: Record | Failure) -> None:
        """Store a result."""


def run_shards(
    shards: Sequence[Shard],
    executor: Executor,
    store: Results,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    num_kept: int = 0,
    estimates: Estimates | None = None,
    later: Sequence[Shard] = (),
) -> Progress:
    """Measure shards that the store lacks, each once, store each result, and return how the run ended.

    Several runs on one store share the work: a shard that another one measures is left to it, and taken over if that
    run ends without a result. Of each model the shards that take longest by ``estimates`` come first. ``later`` are
    shards that are measured once no other is left to be taken, such as those of other machines; ``num_kept`` further
    ones have results. ``on_progress`` is called at the start and after each result. The time left is not estimated
    where other runs share the work.

    Raises:
        StoreError: a result could not be stored; existing files are unharmed.
    """
    todo = [*shards, *later]
    progress = Progress(num_shards=num_kept + len(todo), num_kept_before=num_kept, num_done=0, num_failed=0)
    on_progress(progress)
    if not todo:
        return progress
    with store.claims() as claims:
        is_in_process = executor.num_workers == 0
        cost = size_of if estimates is None else estimates.cost()
        time_left = TimeLeft(todo, executor.num_workers, estimates)
        work = InTurn([ShardQueue(each, cost, claims, is_alone=is_in_process) for each in (shards, later)], time_left)

        def keep(result: Record | Failure) -> None:
            store.put(result)
            claims.release(result.shard.key)

        results = executor.execute(work)
        # In this process the next model may end it, with all that waits to be written.
        with Writer(keep, at_once=is_in_process) as writer, _ended(results):
            for result in results:
                writer.put(result)
                time_left.ends(result)
                progress = replace(
                    progress,
                    num_done=progress.num_done + 1,
                    num_failed=progress.num_failed + isinstance(result, Failure),
                    num_elsewhere=work.num_elsewhere,
                    num_refused=progress.num_refused + (isinstance(result, Failure) and result.is_refusal),
                    result=result,
                    seconds_left=None if later or work.is_shared else time_left.seconds(),
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


class Writer:
    """Thread that passes results to ``store`` in the order in which they came.

    A context manager, whose end waits until everything is stored. With ``at_once`` each result is stored before ``put``
    returns, by the caller's thread.
    """

    def __init__(self, store: Callable[[Record | Failure], None], *, at_once: bool = False) -> None:
        self._store = store
        self._at_once = at_once
        self._waiting: queue.Queue[Record | Failure | None] = queue.Queue(MAX_WAITING)
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="robench-writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._waiting.put(None)
        self._thread.join()
        # An error of the block is the one to be shown.
        if kind is None:
            self._check()

    def put(self, result: Record | Failure) -> None:
        """Store a result soon. Raises StoreError: an earlier result could not be stored; nor is this one."""
        self._check()
        if self._at_once:
            self._store(result)
        else:
            self._waiting.put(result)

    def _work(self) -> None:
        while (result := self._waiting.get()) is not None:
            if self._raised is None:
                try:
                    self._store(result)
                except BaseException as error:  # raised again in the thread that puts
                    self._raised = error

    def _check(self) -> None:
        if self._raised is not None:
            raise self._raised
