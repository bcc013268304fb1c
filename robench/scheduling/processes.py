"""Shards over worker processes: one a GPU, or as many as there are CPU cores.

Python's own pools die whole when one worker is killed (the out-of-memory killer does that). Here a killed worker
costs at most the shard it had: the shard goes back into the queue, a new worker takes the place of the dead one, and
a shard that killed three workers becomes a failure while the rest finishes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from robench.core.errors import RobenchError
from robench.core.records import Failure, Provenance
from robench.scheduling.worker import THREAD_VARIABLES, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from robench.core.records import Record
    from robench.core.shard import Shard

    Evaluate = Callable[[Shard], Record | Failure]

MAX_DEATHS = 3


@dataclass(slots=True)
class _Worker:
    evaluator: Evaluate
    process: SpawnProcess
    pipe: Connection
    shard: Shard | None = None
    has_answered: bool = False


class ProcessExecutor:
    """One spawned process for each evaluator (``core.protocols.Executor``)."""

    def __init__(self, evaluators: Sequence[Evaluate]) -> None:
        self._evaluators = tuple(evaluators)
        self._draining = False
        self._deaths: Counter[str] = Counter()
        self._silent_deaths = 0

    def drain(self) -> None:
        """Begin no further shard; those under way are finished and given back."""
        self._draining = True

    def execute(self, shards: Iterable[Shard]) -> Iterator[Record | Failure]:
        """Yield results as they come; at most one shard a worker is under way."""
        queue = deque(shards)
        workers = [_started(evaluator) for evaluator in self._evaluators[: len(queue)]]
        try:
            while True:
                self._hand_out(queue, workers)
                busy = {worker.pipe: worker for worker in workers if worker.shard is not None}
                if not busy:
                    return
                # A dead worker's pipe is ready too: reading it says so. The timeout lets drain be seen.
                for pipe in wait(list(busy), timeout=0.5):
                    result = self._receive(busy[pipe], queue, workers)  # type: ignore[index]
                    if result is not None:
                        yield result
        finally:
            for worker in workers:
                _stop(worker)

    def _hand_out(self, queue: deque[Shard], workers: list[_Worker]) -> None:
        for worker in workers:
            if worker.shard is None and queue and not self._draining:
                worker.shard = queue.popleft()
                try:
                    worker.pipe.send(worker.shard)
                except OSError:
                    continue  # it is dead, and reading its pipe will say so

    def _receive(self, worker: _Worker, queue: deque[Shard], workers: list[_Worker]) -> Record | Failure | None:
        try:
            result: Record | Failure = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker, queue, workers)
        worker.shard = None
        worker.has_answered = True
        return result

    def _bury(self, worker: _Worker, queue: deque[Shard], workers: list[_Worker]) -> Failure | None:
        """Replace a dead worker; give its shard back to the queue, or up."""
        worker.process.join()
        shard = worker.shard
        assert shard is not None  # only busy workers are waited for
        self._count_death(worker)
        workers[workers.index(worker)] = _started(worker.evaluator)
        worker.pipe.close()
        self._deaths[shard.key] += 1
        if self._deaths[shard.key] < MAX_DEATHS:
            queue.appendleft(shard)
            return None
        return _killed(shard, worker.process.exitcode)

    def _count_death(self, worker: _Worker) -> None:
        """Give up where workers die before they answer at all, whatever shard they have."""
        self._silent_deaths = 0 if worker.has_answered else self._silent_deaths + 1
        if self._silent_deaths > MAX_DEATHS * (1 + len(self._evaluators)):
            raise RobenchError(
                f"{self._silent_deaths} worker processes in a row ended (exit code {worker.process.exitcode}) before "
                "they measured anything. Run with --executor serial to see why; what was kept is safe."
            )


def _killed(shard: Shard, exitcode: int | None) -> Failure:
    signal_text = f"signal {-exitcode}" if exitcode is not None and exitcode < 0 else f"exit code {exitcode}"
    return Failure(
        shard=shard.header,
        error=f"killed {MAX_DEATHS} workers ({signal_text}); memory may be short: try fewer --workers",
        traceback="",
        provenance=Provenance(
            device="", versions={}, seconds=0.0, finished_at=datetime.now(UTC).isoformat(timespec="microseconds")
        ),
    )


def _started(evaluator: Evaluate) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there, evaluator), name="robench-worker", daemon=False)
    with _settings_of_a_child():
        process.start()
    there.close()
    return _Worker(evaluator=evaluator, process=process, pipe=here)


def _stop(worker: _Worker, patience_seconds: float = 5.0) -> None:
    """End a worker: an idle one is asked to, one in the middle of a shard is killed."""
    if worker.shard is None:
        with suppress(OSError):
            worker.pipe.send(None)
        worker.process.join(patience_seconds)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()
    worker.pipe.close()


@contextmanager
def _settings_of_a_child() -> Iterator[None]:
    """What a worker inherits: one thread, and deafness to Ctrl-C, which reaches the whole process group.

    The parent alone decides what Ctrl-C means. Blocked from birth, it does not hit a worker while it imports either.
    """
    # Started with the first child otherwise, and then it unblocks SIGINT in passing.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
