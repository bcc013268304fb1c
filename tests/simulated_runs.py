"""Simulation of a run whose workers differ in speed, load models, die and return: what the queue's order costs."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf

from robench.core.shard import Shard
from robench.scheduling.queue import ShardQueue, size_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWorker:
    """Worker in virtual time.

    Attributes:
        speed: seconds of work that it does in a second; 0.5 for a node that is half as fast as the others.
        dies_at: second of its death, with the shard that it measures; None for never.
        returns_after: seconds from its death until it is back, without a model; None for never.
    """

    speed: float = 1.0
    dies_at: float | None = None
    returns_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Result of a simulated run.

    Attributes:
        makespan: seconds from the start to the last result; infinite if shards are left and no worker is.
        busy_seconds: seconds of measuring, loading and work lost to a death, summed over the workers.
        lost_work: work that deaths interrupted and that was done again, in seconds of a worker of speed 1.
        num_loads: number of times that a worker loaded a model.
        measured: number of results of each shard, by key.
    """

    makespan: float
    busy_seconds: float
    lost_work: float
    num_loads: int
    measured: Counter[str]


def simulate(
    shards: Sequence[Shard],
    cost: Callable[[Shard], float] = size_of,
    workers: Sequence[SimulatedWorker] = (SimulatedWorker(),),
    *,
    load_seconds: float = 0.0,
    detection_seconds: float = 0.0,
) -> Simulation:
    """Return the course of a run in which the workers measure the shards.

    Args:
        shards: what is measured, each once.
        cost: seconds that a shard takes a worker of speed 1.
        workers: all start at second 0; a worker of no use is never waited for.
        load_seconds: time in which a worker loads another model than the one that it holds, at any speed.
        detection_seconds: time from a worker's death until its shard is given back to the queue.
    """
    run = _Run(ShardQueue(shards, cost), cost, workers, load_seconds, detection_seconds)
    run.to_the_end()
    left = len(set(run.measured)) < len({shard.key for shard in shards})
    return Simulation(
        makespan=inf if left else run.last_result,
        busy_seconds=run.busy_seconds,
        lost_work=run.lost_work,
        num_loads=run.num_loads,
        measured=run.measured,
    )


@dataclass(slots=True)
class _Run:
    """State of a simulated run; a worker is known by its number, also after its return."""

    queue: ShardQueue
    cost: Callable[[Shard], float]
    workers: Sequence[SimulatedWorker]
    load_seconds: float
    detection_seconds: float
    now: float = 0.0
    last_result: float = 0.0
    busy_seconds: float = 0.0
    lost_work: float = 0.0
    num_loads: int = 0
    measured: Counter[str] = field(default_factory=Counter)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)
    _loaded: dict[int, str] = field(default_factory=dict)
    _idle: deque[int] = field(default_factory=deque)
    _has_died: set[int] = field(default_factory=set)

    def to_the_end(self) -> None:
        """Go from event to event until nothing happens any more."""
        for number in range(len(self.workers)):
            self._at(0.0, partial(self._takes, number))
        while self._events:
            self.now, _, happens = heapq.heappop(self._events)
            happens()

    def _at(self, second: float, happens: Callable[[], None]) -> None:
        # The order of events at one moment is that in which they were caused.
        heapq.heappush(self._events, (second, next(self._order), happens))

    def _takes(self, number: int) -> None:
        worker = self.workers[number]
        dies_at = inf if worker.dies_at is None or number in self._has_died else worker.dies_at
        if dies_at <= self.now:
            self._dies(number, None)
            return
        shard = self.queue.take(number)
        if shard is None:
            self._idle.append(number)
            return
        model = shard.measurement.checkpoint.name
        loads = self.load_seconds if self._loaded.get(number) != model else 0.0
        self.num_loads += self._loaded.get(number) != model
        self._loaded[number] = model
        ends = self.now + loads + self.cost(shard) / worker.speed
        if ends <= dies_at:
            self.busy_seconds += ends - self.now
            self._at(ends, partial(self._ends, number, shard))
        else:
            self.busy_seconds += dies_at - self.now
            self.lost_work += max(0.0, dies_at - self.now - loads) * worker.speed
            self._at(dies_at, partial(self._dies, number, shard))

    def _ends(self, number: int, shard: Shard) -> None:
        self.measured[shard.key] += 1
        self.last_result = self.now
        self._takes(number)

    def _dies(self, number: int, shard: Shard | None) -> None:
        """Let a worker die, which for an idle one may be noticed later."""
        self._has_died.add(number)
        self._loaded.pop(number, None)
        worker = self.workers[number]
        if worker.returns_after is not None and worker.dies_at is not None:
            self._at(max(self.now, worker.dies_at + worker.returns_after), partial(self._takes, number))
        if shard is not None:
            self._at(self.now + self.detection_seconds, partial(self._is_given_back, shard))

    def _is_given_back(self, shard: Shard) -> None:
        self.queue.give_back(shard)
        while self._idle and len(self.queue):
            self._takes(self._idle.popleft())
