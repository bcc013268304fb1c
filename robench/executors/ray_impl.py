"""Executor with workers in actors of a Ray cluster.

The run hands each actor one shard at a time and stores the results itself. An actor that dies, hangs or sends nonsense
costs at most its current shard: the shard goes back into the queue and a new actor takes the place of the old one,
wherever the cluster has room.

Everything arrives at an actor and leaves it as bytes, so that modules of other distributions are imported inside a
containment, and an exception becomes a sentence on the machine that knows its class.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robench.core.containment import Contained
from robench.core.errors import RobenchError, described
from robench.core.memory import keep_freed_memory
from robench.core.protocols import Work
from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.core.user_code import unpickled
from robench.executors.base import (
    MAX_DEATHS,
    SECONDS_BETWEEN_LOOKS,
    Death,
    Deaths,
    Evaluate,
    WorkerPool,
    following_in,
    late,
    mistaken,
    needs_new_process,
)
from robench.executors.ray import Ray
from robench.executors.ray_cluster import Cluster, shown
from robench.executors.worker import THREAD_VARIABLES
from robench.executors.worker_process import DEFAULT_LIMIT_SECONDS

LEFT = Death("was on a machine that left the cluster", "look at that machine, and run it again")
SHORT_OF_MEMORY = Death("was ended by Ray, which was short of memory", "try fewer workers, or a larger cpus_per_worker")
ENDED = Death(
    "ended unexpectedly",
    "native code of the model may have crashed, or memory was short; Ray's log of the worker on its machine says more",
)


class RayWorker:
    """Worker in an actor, whose imports and current folder are those of the run."""

    def __init__(self, search_path: Sequence[str], folder: str) -> None:
        keep_freed_memory()
        sys.path.extend(each for each in search_path if each not in sys.path)
        with suppress(OSError):
            os.chdir(folder)
        # Warnings about data were issued when the run was prepared.
        logging.getLogger("robench").setLevel(logging.ERROR)
        self._evaluator: Evaluate | None = None

    def prepare(self, content: bytes) -> str:
        """Make the evaluator, from a pickled function and the name of a device; return the problem, empty if none."""
        try:
            with Contained(keeps_environment=True):
                make, device = unpickled(content)
            self._evaluator = make(device)
        # Broad because it may lack any module, on an unknown machine.
        except Exception as error:
            return described(error)
        return ""

    def measure(self, content: bytes) -> tuple[object, str]:
        """Return the result of a pickled shard and an empty text, or None and the problem.

        With it comes the shard that will probably follow, or None.
        """
        assert self._evaluator is not None  # it was prepared
        try:
            with Contained(keeps_environment=True):
                shard, following = unpickled(content)
            return self._evaluator(shard, following), ""
        # Broad for the same reason; errors of models are failures already.
        except Exception as error:
            return None, described(error)


# Compared and hashed by identity: a place is a worker for the queue.
@dataclass(slots=True, eq=False)
class _Place:
    """Slot of a worker: its actor may be replaced. Any: Ray's types are not known without it.

    Attributes:
        pending: reference to what the actor is doing; None for one that is free.
        begun: when it was handed its shard.
        foreign_code, is_spoiled: as of a worker process (``executors.processes``).
    """

    actor: Any
    pending: Any
    begun: float = 0.0
    is_ready: bool = False
    shard: Shard | None = None
    foreign_code: str = ""
    is_spoiled: bool = False


class RayExecutor:
    """Executor with an actor a device (``core.protocols.Executor``)."""

    def __init__(self, declaration: Ray, pool: WorkerPool) -> None:
        self._pool = pool
        self._start_seconds = declaration.start_timeout
        self._limit_seconds = DEFAULT_LIMIT_SECONDS if pool.shard_timeout is None else pool.shard_timeout
        self._cluster = Cluster(declaration, pool.device, pool.num_workers)
        self._draining = False
        self._deaths = Deaths("worker")
        self._silent_deaths: list[str] = []
        self._last_ready = 0.0
        self._num_places = 0

    @property
    def num_workers(self) -> int:
        """Number of actors, for which the cluster is asked if none was given."""
        return self._pool.num_workers or self._cluster.num_workers()

    def drain(self) -> None:
        """Start no further shards; those in progress are finished and yielded."""
        self._draining = True

    def execute(self, work: Work) -> Iterator[Record | Failure]:
        """Yield results as they arrive; each actor has at most one shard in progress.

        Raises:
            UsageError: there is no Ray, no cluster, or no room for the workers.
            RobenchError: workers do not start.
        """
        if not len(work):
            return
        places: list[_Place] = []
        try:
            self._num_places = min(self._cluster.num_workers(), len(work))
            start = self._starter()
            self._last_ready = time.monotonic()
            places += [_Place(*start()) for _ in range(self._num_places)]
            while True:
                self._hand_out(work, places, start)
                if not any(place.shard for place in places) and (self._draining or not len(work)):
                    return
                for place in self._heard_of(places):
                    result = self._look_after(place, work)
                    if place.actor is None:
                        place.actor, place.pending = start()
                        place.foreign_code, place.is_spoiled = "", False
                    if result is not None:
                        yield result
                self._check_start(places)
        finally:
            for place in places:
                if place.actor is not None:
                    self._kill(place)
            self._cluster.close()

    def _starter(self) -> Callable[[], tuple[Any, Any]]:
        """Return a function that starts an actor, and returns it and a reference to its preparation."""
        ray, wanted = self._cluster.ray, self._cluster.wanted()
        device = "cuda" if wanted.num_gpus else "cpu"
        # Also pickles what the user's script defines, which no other process imports.
        content = ray.cloudpickle.dumps((self._pool.make, device))
        worker = ray.remote(RayWorker).options(
            num_cpus=wanted.num_cpus,
            num_gpus=wanted.num_gpus,
            max_restarts=0,
            max_task_retries=0,
            runtime_env={"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")},
        )

        def start() -> tuple[Any, Any]:
            actor = worker.remote([str(Path(each).absolute()) for each in sys.path], _folder())
            return actor, actor.prepare.remote(content)

        return start

    def _hand_out(self, work: Work, places: list[_Place], start: Callable[[], tuple[Any, Any]]) -> None:
        for place in places:
            if place.pending is None and not self._draining and (shard := work.take(place)) is not None:
                place.begun = time.monotonic()
                if place.is_spoiled or needs_new_process(place.foreign_code, shard):
                    self._kill(place)
                    # An actor answers in order, so that the shard waits until it is prepared.
                    place.actor, _ = start()
                    place.begun += self._start_seconds
                    place.is_spoiled = False
                place.shard, place.foreign_code = shard, shard.measurement.foreign_code
                task = self._cluster.ray.cloudpickle.dumps((shard, following_in(work, place, shard)))
                place.pending = place.actor.measure.remote(task)

    def _heard_of(self, places: list[_Place]) -> list[_Place]:
        """Wait briefly; return the places whose actors have answered, died, or exceeded their time."""
        pending = {place.pending: place for place in places if place.pending is not None}
        if not pending:
            # Other runs measure what is left.
            time.sleep(SECONDS_BETWEEN_LOOKS)
            return []
        wait = self._cluster.ray.wait
        wait(list(pending), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
        answered, others = wait(list(pending), num_returns=len(pending), timeout=0)
        since = time.monotonic() - self._limit_seconds
        hanging = [each for each in others if pending[each].shard is not None and pending[each].begun < since]
        return [pending[each] for each in (*answered, *hanging)]

    def _look_after(self, place: _Place, work: Work) -> Record | Failure | None:
        """Return the result of an actor's shard if there is one; end the actor if it failed."""
        shard, answer = place.shard, self._answer(place)
        place.shard = place.pending = None
        if shard is None and not isinstance(answer, Death):
            place.is_ready = True
            self._silent_deaths.clear()
            return None
        if shard is not None and isinstance(answer, (Record, Failure)) and answer.shard.key == shard.key:
            place.is_spoiled = isinstance(answer, Failure) and answer.spoils_process
            return answer
        death = answer if isinstance(answer, Death) else mistaken(answer)
        self._kill(place)
        place.actor, place.is_ready = None, False
        if shard is None:
            self._count_silent(death)
            return None
        failure = self._deaths.failure(shard, death)
        if failure is None:
            work.give_back(shard)
        return failure

    def _answer(self, place: _Place) -> object | Death:
        """Return the answer of an actor, or how it ended."""
        ray = self._cluster.ray
        try:
            found = ray.get(place.pending, timeout=0)
        except ray.exceptions.GetTimeoutError:
            return late(self._limit_seconds)
        except ray.exceptions.RayError as error:
            return _ended(ray, error)
        result, problem = (None, found) if place.shard is None else found
        return Death(f"raised {problem}", "the machines need the same packages and files") if problem else result

    def _count_silent(self, death: Death) -> None:
        """Give up if workers repeatedly end before they are ready."""
        self._silent_deaths.append(death.what)
        if len(self._silent_deaths) > MAX_DEATHS * (1 + self._num_places):
            raise RobenchError(
                f"{len(self._silent_deaths)} workers in a row ended on the Ray cluster before they measured anything; "
                f"the last {death.what}. {death.advice[0].upper()}{death.advice[1:]}."
            )

    def _check_start(self, places: list[_Place]) -> None:
        """Give up if no worker has been ready for a long time."""
        now = time.monotonic()
        if any(place.is_ready for place in places):
            self._last_ready = now
        elif now - self._last_ready > self._start_seconds:
            raise RobenchError(
                f"no worker has been ready for {self._start_seconds:g} s on the Ray cluster, which has "
                f"{shown(self._cluster.machines())}, and others may use it. Run it again when there is "
                f"room for workers of {self._cluster.wanted()}."
            )

    def _kill(self, place: _Place) -> None:
        # One that is dead already, or whose cluster is gone, needs no end.
        with suppress(Exception):
            self._cluster.ray.kill(place.actor, no_restart=True)


def executor_of(declaration: Ray, pool: WorkerPool) -> RayExecutor:
    """Return the executor with an actor for each device of the cluster."""
    return RayExecutor(declaration, pool)


def _ended(ray: Any, error: Exception) -> Death:
    text = str(error)
    if isinstance(error, ray.exceptions.OutOfMemoryError) or "running low on memory" in text:
        return SHORT_OF_MEMORY
    if isinstance(error, ray.exceptions.NodeDiedError) or "node has died" in text or "node was terminated" in text:
        return LEFT
    if isinstance(error, ray.exceptions.RayTaskError):
        return Death(f"raised {described(error)[-300:]}", "the machines need the same packages and files")
    if isinstance(error, ray.exceptions.ActorDiedError) and "creation task" in text:
        last = text.strip().splitlines()[-1]
        return Death(f"could not start ({last[:300]})", "the machines need the same Python, robench and packages")
    return ENDED


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "/"
