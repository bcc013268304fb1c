"""Execution in worker processes of this machine: one per GPU, or as many as there are CPU cores.

Python's own pools die whole when one worker is killed (the out-of-memory killer does that). Here a worker that dies,
hangs or sends an invalid answer costs at most its current shard: the shard goes back into the queue, a new worker takes
the place of the old one, and a shard that ended three workers becomes a failure while the rest finishes.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from robench.core.child_processes import refers_to_script
from robench.core.errors import RobenchError
from robench.core.protocols import Work
from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.executors.base import (
    MAX_DEATHS,
    SECONDS_BETWEEN_LOOKS,
    Death,
    Deaths,
    Evaluate,
    ExecutorBase,
    WorkerPool,
    following_in,
    mistaken,
    needs_new_process,
)
from robench.executors.worker_process import DEFAULT_LIMIT_SECONDS, WorkerProcess, wait_for

STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes(ExecutorBase):
    """Execution in worker processes of this machine, by default one per GPU, or per CPU core."""

    kind: ClassVar[str] = "processes"
    implementation: ClassVar[str] = "robench.executors.processes:executor_of"


# Compared and hashed by identity: a place is a worker for the queue.
@dataclass(slots=True, eq=False)
class _Place:
    """Slot of a worker: its evaluator stays, its process may be replaced.

    Attributes:
        foreign_code: code other than robench's that the process has run (``Measurement.foreign_code``).
        is_spoiled: whether a shard made the process unfit for others.
    """

    evaluator: Evaluate
    process: WorkerProcess
    shard: Shard | None = None
    foreign_code: str = ""
    is_spoiled: bool = False


class ProcessExecutor:
    """Executor with a process per evaluator (``core.protocols.Executor``); a shard may take ``shard_timeout`` s."""

    def __init__(self, evaluators: Sequence[Evaluate], shard_timeout: float | None = None) -> None:
        self._evaluators = tuple(evaluators)
        self._limit_seconds = DEFAULT_LIMIT_SECONDS if shard_timeout is None else shard_timeout
        self._draining = False
        self._deaths = Deaths("worker process")
        self._silent_deaths = 0
        self._imports_script = True

    @property
    def num_workers(self) -> int:
        """Number of processes; no more are started than there are shards."""
        return len(self._evaluators)

    def drain(self) -> None:
        """Start no further shards; those in progress are finished and yielded."""
        self._draining = True

    def execute(self, work: Work) -> Iterator[Record | Failure]:
        """Yield results as they arrive; each worker has at most one shard in progress."""
        if not len(work):
            return
        self._imports_script = refers_to_script((*self._evaluators, *work.measurements))
        places: list[_Place] = []
        try:
            for evaluator in self._evaluators[: len(work)]:
                places.append(_Place(evaluator, self._started(evaluator)))
            while True:
                self._hand_out(work, places)
                busy = [place for place in places if place.shard is not None]
                if busy:
                    wait_for([place.process for place in busy])
                elif len(work) and not self._draining:
                    # Other runs measure what is left.
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                else:
                    return
                for place in busy:
                    result = self._look_after(place, work)
                    if result is not None:
                        yield result
        finally:
            _stop(places)

    def _started(self, evaluator: Evaluate) -> WorkerProcess:
        return WorkerProcess(evaluator, self._limit_seconds, imports_script=self._imports_script)

    def _hand_out(self, work: Work, places: list[_Place]) -> None:
        for place in places:
            if place.shard is None and not self._draining and (shard := work.take(place)) is not None:
                if place.is_spoiled or needs_new_process(place.foreign_code, shard):
                    place.process.end()
                    self._renew(place)
                place.shard, place.foreign_code = shard, shard.measurement.foreign_code
                place.process.hand(shard, following_in(work, place, shard))

    def _renew(self, place: _Place) -> None:
        place.process = self._started(place.evaluator)
        place.foreign_code, place.is_spoiled = "", False

    def _look_after(self, place: _Place, work: Work) -> Record | Failure | None:
        """Return the result of a worker's shard if there is one; replace the worker if it failed."""
        shard = place.shard
        assert shard is not None  # only busy workers are watched
        answer = place.process.look()
        if isinstance(answer, (Record, Failure)) and answer.shard.key == shard.key:
            place.shard = None
            place.is_spoiled = isinstance(answer, Failure) and answer.spoils_process
            return answer
        if answer is None:
            return None
        place.process.end()
        place.shard = None
        failure = self._deaths.failure(shard, answer if isinstance(answer, Death) else mistaken(answer))
        if failure is None:
            work.give_back(shard)
        self._count_death(place.process)
        self._renew(place)
        return failure

    def _count_death(self, process: WorkerProcess) -> None:
        """Give up if workers repeatedly die before they are ready."""
        self._silent_deaths = 0 if process.is_ready else self._silent_deaths + 1
        if self._silent_deaths > MAX_DEATHS * (1 + len(self._evaluators)):
            raise RobenchError(
                f"{self._silent_deaths} worker processes in a row ended (exit code {process.exit_code}) before "
                "they measured anything. Run with --executor serial to see why."
            )


def executor_of(declaration: Processes, pool: WorkerPool) -> ProcessExecutor:
    """Return the executor with a process for each device of ``pool``."""
    return ProcessExecutor([pool.make(device) for device in pool.devices], pool.shard_timeout)


def answers_in_a_process(
    answer: Callable[[Any], object],
    tasks: Iterable[object],
    limit_seconds: float,
    *,
    is_foreign: Callable[[Any], bool] = lambda task: False,
) -> Generator[object, None, None]:
    """Yield ``answer``'s result for each task, computed in a separate process, or how that process ended.

    Tasks that run code other than robench's (``is_foreign``) have a process each. Any: what the caller's tasks are.
    """
    worker: WorkerProcess | None = None
    known = list(tasks)
    imports_script = refers_to_script((answer, *known))
    try:
        for task in known:
            if worker is not None and is_foreign(task):
                worker.end()
                worker = None
            if worker is None:
                worker = WorkerProcess(answer, limit_seconds, imports_script=imports_script)
            worker.hand(task)
            while (found := worker.look()) is None:
                wait_for([worker])
            if isinstance(found, Death) or is_foreign(task):
                worker.end()
                worker = None
            yield found
    finally:
        if worker is not None:
            worker.end()


def _stop(places: Sequence[_Place]) -> None:
    """End the workers: idle ones are asked to exit, busy ones are killed."""
    for place in places:
        if place.shard is None:
            place.process.dismiss()
    for place in places:
        place.process.end(STOP_SECONDS if place.shard is None else 0.0)
