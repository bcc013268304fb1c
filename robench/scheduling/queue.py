"""Queue of shards: which worker measures which shard next.

A worker keeps to the model that it holds, whose weights are then loaded once a worker. A worker without one, or whose
model has no shard left, goes to the model with the most work left for each of its workers, or to the next of the plan
where the run has no other worker. Of a model, the longest shards come first, so that no long one is left for the end.
Near the end a worker leaves its model for a shard of another one that alone takes as long as everything that is left,
shared by all workers.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from robench.core.protocols import Claimed, Claims
from robench.core.shard import Measurement, Shard
from robench.scheduling.estimates import TimeLeft
from robench.store.leases import Unshared

# Shards of other runs are looked for again after this time.
SECONDS_BETWEEN_LOOKS = 1.0
# A worker leaves its model early only for a shard that takes so many times as long as its own next one.
LONGER = 2.0


@dataclass(slots=True)
class _OfModel:
    """Shards of one model that are left, longest first, and their cost."""

    shards: deque[Shard] = field(default_factory=deque)
    cost: float = 0.0


def size_of(shard: Shard) -> float:
    """Return the number of examples of a shard, its cost where nothing better is known."""
    return float(shard.stop - shard.start)


class ShardQueue:
    """Shards to be measured (``core.protocols.Work``), shared with other runs by claims.

    Args:
        shards: shards without a record, each once.
        cost: relative cost of a shard.
        claims: claims on the shards; all are this run's by default.
        is_alone: whether a single worker takes them: then models are in the order of the plan, regardless of cost.

    Attributes:
        num_elsewhere: number of shards that another run has measured since.
    """

    def __init__(
        self,
        shards: Iterable[Shard],
        cost: Callable[[Shard], float] = size_of,
        claims: Claims | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        self.num_elsewhere = 0
        self._is_alone = is_alone
        self._claims = Unshared() if claims is None else claims
        self._cost = cost
        self._models: dict[str, _OfModel] = {}
        self._measurements: dict[int, Measurement] = {}
        self._longest = 0.0
        of_plan = list(shards)
        for shard in of_plan:
            self._models.setdefault(shard.measurement.checkpoint.name, _OfModel())
        # Python's sort is stable: shards of equal cost keep the order of the plan.
        for shard in sorted(of_plan, key=self._rank):
            model = self._models[shard.measurement.checkpoint.name]
            model.shards.append(shard)
            model.cost += (each := cost(shard))
            self._longest = max(self._longest, each)
            self._measurements.setdefault(id(shard.measurement), shard.measurement)
        self._left = sum(each.cost for each in self._models.values())
        self._returned: deque[Shard] = deque()
        self._taken: deque[Shard] = deque()
        self._last_look = -SECONDS_BETWEEN_LOOKS
        self._holding: dict[Hashable, str] = {}
        self._expected: dict[Hashable, Shard] = {}

    def __len__(self) -> int:
        """Return the number of shards that are left to be taken, claimed by other runs or not."""
        return len(self._returned) + len(self._taken) + sum(len(each.shards) for each in self._models.values())

    @property
    def is_shared(self) -> bool:
        """Return whether other runs have been seen to measure shards of the queue."""
        return bool(self.num_elsewhere or self._taken)

    @property
    def measurements(self) -> list[Measurement]:
        """Return the measurements of all shards that were ever in the queue, each once."""
        return list(self._measurements.values())

    def take(self, worker: Hashable) -> Shard | None:
        """Return the next shard for a worker, or None if others have claimed all that are left."""
        if self._returned:
            return self._held_by(worker, self._returned.popleft())
        while (name := self._next_model(worker)) is not None:
            model = self._models[name]
            shard = self._removed_from(model, worker)
            model.cost -= (cost := self._cost(shard))
            self._left -= cost
            if self._is_mine(shard):
                return self._held_by(worker, shard)
        return self._taken_over(worker)

    def following(self, worker: Hashable) -> Shard | None:
        """Return the next shard of the worker's model, which others leave to it while they have another one.

        Nothing is claimed, and None is returned where the model has no shard for it.
        """
        model = self._models.get(self._holding.get(worker, ""))
        if model is None:
            return None
        self._expected.pop(worker, None)
        expected = self._expected_by_others(worker)
        shard = next((each for each in islice(model.shards, len(expected) + 1) if id(each) not in expected), None)
        if shard is not None:
            self._expected[worker] = shard
        return shard

    def give_back(self, shard: Shard) -> None:
        """Return a shard without a result, which is taken again before all others."""
        self._returned.appendleft(shard)

    def _rank(self, shard: Shard) -> tuple[bool, str, float]:
        """Return the order of a shard within its model: shards that may share a process are together."""
        measurement = shard.measurement
        return not measurement.condition.action.goes_first, measurement.foreign_code, -self._cost(shard)

    def _expected_by_others(self, worker: Hashable) -> set[int]:
        return {id(shard) for each, shard in self._expected.items() if each != worker}

    def _removed_from(self, model: _OfModel, worker: Hashable) -> Shard:
        """Remove and return the shard that the worker expects, else the first that nobody expects, else the first."""
        expected, others = self._expected.pop(worker, None), self._expected_by_others(worker)
        # Shards before the expected one are expected by others.
        near = list(islice(model.shards, len(others) + 1))
        ranks = [(each is not expected, id(each) in others) for each in near]
        place = ranks.index(min(ranks))
        del model.shards[place]
        return near[place]

    def _held_by(self, worker: Hashable, shard: Shard) -> Shard:
        self._holding[worker] = shard.measurement.checkpoint.name
        return shard

    def _next_model(self, worker: Hashable) -> str | None:
        held = self._holding.get(worker)
        if (urgent := self._urgent_model(worker)) is not None:
            return urgent
        if held is not None and self._models[held].shards:
            return held
        left = [name for name, model in self._models.items() if model.shards]
        if self._is_alone:
            return next(iter(left), None)
        num_workers = Counter(name for each, name in self._holding.items() if each != worker)
        return max(left, key=lambda name: self._models[name].cost / (1 + num_workers[name]), default=None)

    def _urgent_model(self, worker: Hashable) -> str | None:
        """Return the model whose next shard would be the last to end if it did not begin now, if there is one."""
        num_workers = len(self._holding) + (worker not in self._holding)
        if num_workers == 1 or self._longest < self._left / num_workers:
            return None
        nexts = {name: self._cost(model.shards[0]) for name, model in self._models.items() if model.shards}
        if not nexts:
            return None
        self._longest = max(nexts.values())
        longest = max(nexts, key=lambda name: nexts[name])
        is_worth_it = nexts[longest] > LONGER * nexts.get(self._holding.get(worker, ""), 0.0)
        return longest if is_worth_it and nexts[longest] >= self._left / num_workers else None

    def _is_mine(self, shard: Shard) -> bool:
        """Claim a shard; put it aside if another run measures it, and count it if one has."""
        claimed = self._claims.claim(shard.measurement.key, shard.key)
        if claimed is Claimed.TAKEN:
            self._taken.append(shard)
        self.num_elsewhere += claimed is Claimed.DONE
        return claimed is Claimed.MINE

    def _taken_over(self, worker: Hashable) -> Shard | None:
        """Return a shard whose claim by another run has ended without a record."""
        if time.monotonic() - self._last_look < SECONDS_BETWEEN_LOOKS:
            return None
        for _ in range(len(self._taken)):
            shard = self._taken.popleft()
            if self._is_mine(shard):
                return self._held_by(worker, shard)
        self._last_look = time.monotonic()
        return None


class InTurn:
    """Several queues as one (``core.protocols.Work``): later ones are used when earlier ones have nothing to take.

    ``time_left`` notes each shard that is taken or given back.
    """

    def __init__(self, queues: Sequence[ShardQueue], time_left: TimeLeft | None = None) -> None:
        self._queues = tuple(queues)
        self._time_left = time_left

    def __len__(self) -> int:
        """Return the number of shards that are left to be taken."""
        return sum(map(len, self._queues))

    @property
    def num_elsewhere(self) -> int:
        """Return the number of shards that another run has measured since."""
        return sum(each.num_elsewhere for each in self._queues)

    @property
    def is_shared(self) -> bool:
        """Return whether other runs have been seen to measure shards of the queue."""
        return any(each.is_shared for each in self._queues)

    @property
    def measurements(self) -> list[Measurement]:
        """Return the measurements of all shards, each once."""
        return list({id(found): found for each in self._queues for found in each.measurements}.values())

    def take(self, worker: Hashable) -> Shard | None:
        """Return the next shard for a worker, or None if others have claimed all that are left."""
        found = (each.take(worker) for each in self._queues)
        taken = next((shard for shard in found if shard is not None), None)
        if taken is not None and self._time_left is not None:
            self._time_left.begins(taken)
        return taken

    def following(self, worker: Hashable) -> Shard | None:
        """Return the shard that a worker will probably take next, or None."""
        found = (each.following(worker) for each in self._queues)
        return next((shard for shard in found if shard is not None), None)

    def give_back(self, shard: Shard) -> None:
        """Return a shard without a result, which is taken again before all others."""
        self._queues[0].give_back(shard)
        if self._time_left is not None:
            self._time_left.stops(shard)
