"""Estimates of time: seconds of an example as measured, or its passes times the seconds of one.

The seconds of a pass are those of the model's other measurements, of a few timed passes, or of counted operations at a
stated speed. Passes are the most that an attack may need: a search that stops early takes less.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from statistics import median

from robench.core.records import Failure, Record
from robench.core.shard import Measurement, Shard
from robench.core.suite import Condition
from robench.tasks import TASKS

# Of the seconds of a forward and a backward pass together.
FORWARD_FRACTION = 1 / 3
# Seconds of a backward pass to the inputs alone over those of a forward pass, in forecasts: attacks need no gradients
# of weights. It is 1.14 by the operations of a DeiT-tiny, whose products of activations have two; 1.3 was measured.
BACKWARD_TO_INPUTS = 1.3
# From the start of worker processes to their first pass: the import of torch, and the loading of data and weights.
STARTUP_SECONDS = 8.0
SECONDS_BETWEEN_ESTIMATES = 1.0
# Passes of a condition over those of the measurement that its time is scaled from, where a pass was timed as well.
MOST_SCALED = 10.0


class Source(Enum):
    """Origin of an estimate, best first."""

    MEASURED = "the same measurement"
    SCALED = "other measurements of the model"
    TIMED = "a few timed passes"
    COUNTED = "counted operations at the stated speed"
    TIMED_ON_CPU = "a few passes timed on a CPU"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds that an example takes, or a forward and a backward pass of one, and where they are from."""

    seconds: float
    source: Source


@dataclass(slots=True)
class _Sum:
    seconds: float = 0.0
    count: int = 0


class Estimates:
    """Seconds of an example of each measurement of a run or a store, on one kind of device.

    ``per_pass`` are the seconds of a forward and a backward pass of an example, used for models without measurements.
    """

    def __init__(self, per_pass: Mapping[str, Estimate] | None = None) -> None:
        self._per_pass = dict(per_pass or {})
        self._measured: dict[Hashable, _Sum] = {}
        # By model, the passes of an example of each of its measurements.
        self._passes: dict[str, dict[Hashable, float]] = {}

    def add(
        self, key: Hashable, model: str, condition: Condition, seconds: float, count: int, per_prediction: int = 1
    ) -> None:
        """Add that ``count`` examples of the measurement ``key`` took so many seconds together.

        ``per_prediction``: the model's ``passes_per_prediction``.
        """
        total = self._measured.setdefault(key, _Sum())
        total.seconds, total.count = total.seconds + seconds, total.count + count
        if passes := weighted_passes(condition, per_prediction):
            self._passes.setdefault(model, {})[key] = passes

    def of(self, key: Hashable, model: str, condition: Condition, per_prediction: int = 1) -> Estimate | None:
        """Return the seconds of an example: as measured, by the model's others, or by passes; None if unknown."""
        if (measured := self._measured.get(key)) is not None:
            return Estimate(measured.seconds / measured.count, Source.MEASURED)
        passes = weighted_passes(condition, per_prediction)
        each = None if passes is None else self._of_pass(model, passes)
        return None if passes is None or each is None else Estimate(each.seconds * passes, each.source)

    def of_measurement(self, measurement: Measurement) -> Estimate | None:
        """Return the seconds of an example of a measurement; None if they are unknown."""
        checkpoint = measurement.checkpoint
        return self.of(measurement.key, checkpoint.name, measurement.condition, checkpoint.passes_per_prediction)

    def cost(self) -> Callable[[Shard], float]:
        """Return a function from shards to their relative cost, by which they are put in order.

        A model whose time is unknown counts as the mean of the others.
        """
        models = self._per_pass.keys() | self._passes
        each_pass = [each.seconds for model in models if (each := self._of_pass(model, 0.0)) is not None]
        usual = sum(each_pass) / len(each_pass) if each_pass else 1.0
        # A run may have a million shards of a thousand measurements.
        known: dict[int, float] = {}

        def cost(shard: Shard) -> float:
            measurement = shard.measurement
            if id(measurement) not in known:
                found = self.of_measurement(measurement)
                per_prediction = measurement.checkpoint.passes_per_prediction
                _, forward, backward, _ = passes_of(measurement.condition, per_prediction)
                known[id(measurement)] = usual * weighted(forward, backward) if found is None else found.seconds
            return (shard.stop - shard.start) * known[id(measurement)]

        return cost

    def _of_pass(self, model: str, wanted: float) -> Estimate | None:
        """Return the seconds of a pass for a condition of ``wanted`` passes."""
        of_model = self._passes.get(model, {})
        # Of a few passes most is not the passes: reading, scoring and storing.
        similar = {key: passes for key, passes in of_model.items() if passes * MOST_SCALED >= wanted}
        if not similar and model in self._per_pass:
            return self._per_pass[model]
        sums = {key: (self._measured[key], passes) for key, passes in (similar or of_model).items()}
        ratios = [total.seconds / total.count / passes for total, passes in sums.values()]
        return Estimate(median(ratios), Source.SCALED) if ratios else None


def weighted(forward: int, backward: int) -> float:
    """Return passes in pairs of a forward and a backward pass; a forward pass alone is a third of a pair."""
    return FORWARD_FRACTION * forward + (1 - FORWARD_FRACTION) * backward


def passes_of(condition: Condition, per_prediction: int = 1) -> tuple[int, int, int, bool]:
    """Return the numbers of inputs, forward and backward passes of an example, and whether all passes are known.

    ``per_prediction`` is the model's ``passes_per_prediction``.
    """
    passes = condition.action.most_passes(condition.perturbation)
    forward, backward = passes or (0, 0)
    inputs = max(1, len(condition.perturbation.at_budgets))
    # A sweep's passes are of all its budgets together.
    task = TASKS[condition.dataset.task]
    is_compared = task.compares_clean and not condition.perturbation.is_clean
    predictions = condition.num_predictions * per_prediction + is_compared
    return inputs, inputs * predictions + forward, backward, passes is not None and not task.is_played


def weighted_passes(condition: Condition, per_prediction: int = 1) -> float | None:
    """Return the passes of an example in pairs of a forward and a backward pass; None if they are unknown."""
    _, forward, backward, is_known = passes_of(condition, per_prediction)
    return weighted(forward, backward) if is_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of some shards.

    Attributes:
        forward, backward: largest numbers of passes of single examples; see ``most_passes`` of perturbations.
        is_whole: whether the passes of every condition are known; the numbers omit unknown ones.
        known_seconds: time that the shards with an estimate take one worker.
        longest: time of the longest of them.
        sources: number of shards by the origin of their estimate; None counts those without one.
    """

    forward: int
    backward: int
    is_whole: bool
    known_seconds: float = 0.0
    longest: float = 0.0
    sources: Mapping[Source | None, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """Return the time that the shards take one worker; None where it is unknown of any."""
        return None if self.sources.get(None) else self.known_seconds

    def seconds_on(self, num_workers: int) -> float | None:
        """Return the time until workers that have started are done: at least that of the longest shard."""
        return None if self.seconds is None else max(self.seconds / num_workers, self.longest)

    def is_faster_alone(self, num_workers: int) -> bool:
        """Return whether one process ends before ``num_workers`` new ones, which have to start first."""
        return self.seconds is not None and self.seconds < STARTUP_SECONDS + self.seconds / num_workers


def work_of(shards: Iterable[Shard], estimates: Estimates) -> Work:
    """Return the work of shards."""
    forward = backward = 0
    known_seconds = longest = 0.0
    is_whole = True
    sources: Counter[Source | None] = Counter()
    costs: dict[int, tuple[int, int, bool, Estimate | None]] = {}
    for shard in shards:
        measurement, size = shard.measurement, shard.stop - shard.start
        if id(measurement) not in costs:
            per_prediction = measurement.checkpoint.passes_per_prediction
            _, *passes, is_known = passes_of(measurement.condition, per_prediction)
            costs[id(measurement)] = passes[0], passes[1], is_known, estimates.of_measurement(measurement)
        forward_each, backward_each, is_known, found = costs[id(measurement)]
        is_whole = is_whole and is_known
        forward += size * forward_each
        backward += size * backward_each
        seconds = 0.0 if found is None else size * found.seconds
        known_seconds, longest = known_seconds + seconds, max(longest, seconds)
        sources[None if found is None else found.source] += 1
    return Work(
        forward=forward,
        backward=backward,
        is_whole=is_whole,
        known_seconds=known_seconds,
        longest=longest,
        sources=dict(sources),
    )


class TimeLeft:
    """Clock of a run: from when shards begin and end it estimates how long the rest takes.

    Args:
        shards: all that is to be measured.
        num_workers: number of workers that measure side by side.
        estimates: estimates from before the run, to which its measurements are added.
        clock: function that returns the time in seconds.
    """

    def __init__(
        self,
        shards: Iterable[Shard],
        num_workers: int,
        estimates: Estimates | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_workers = max(1, num_workers)
        self._estimates = estimates or Estimates()
        self._clock = clock
        self._measurements: dict[str, Measurement] = {}
        # Examples that wait, and those of the largest shard, by measurement: there may be a million shards.
        self._waiting: Counter[str] = Counter()
        self._largest: Counter[str] = Counter()
        for shard in shards:
            key, size = shard.measurement.key, shard.stop - shard.start
            self._measurements[key] = shard.measurement
            self._waiting[key] += size
            self._largest[key] = max(size, self._largest[key])
        self._running: dict[str, tuple[Shard, float]] = {}
        self._latest: tuple[float, float | None] = -inf, None

    def begins(self, shard: Shard) -> None:
        """Note that a worker has been given a shard."""
        self._waiting[shard.measurement.key] -= shard.stop - shard.start
        self._running[shard.key] = shard, self._clock()

    def stops(self, shard: Shard) -> None:
        """Note that a shard was given back without a result."""
        if self._running.pop(shard.key, None) is not None:
            self._waiting[shard.measurement.key] += shard.stop - shard.start

    def ends(self, result: Record | Failure) -> None:
        """Note that a shard has a result."""
        began = self._running.pop(result.shard.key, None)
        if began is not None and isinstance(result, Record):
            shard, measurement = began[0], began[0].measurement
            size, seconds = shard.stop - shard.start, result.provenance.seconds
            checkpoint, condition = measurement.checkpoint, measurement.condition
            passes = checkpoint.passes_per_prediction
            self._estimates.add(measurement.key, checkpoint.name, condition, seconds, size, passes)

    def seconds(self) -> float | None:
        """Return the seconds until the last shard ends, at most a second old; None where they are not known."""
        now = self._clock()
        if now - self._latest[0] >= SECONDS_BETWEEN_ESTIMATES:
            self._latest = now, self._estimated(now)
        return self._latest[1]

    def _estimated(self, now: float) -> float | None:
        left = {key for key, size in self._waiting.items() if size}
        left |= {shard.measurement.key for shard, _ in self._running.values()}
        estimates = {key: self._estimates.of_measurement(self._measurements[key]) for key in left}
        known = {key: each for key, each in estimates.items() if each is not None}
        if not left or len(known) < len(left):
            return None
        waiting = {key: size * known[key].seconds for key, size in self._waiting.items() if size}
        alone = [self._largest[key] * known[key].seconds for key in waiting]
        running = [
            max(0.0, (shard.stop - shard.start) * known[shard.measurement.key].seconds - (now - began))
            for shard, began in self._running.values()
        ]
        return max((sum(waiting.values()) + sum(running)) / self._num_workers, *alone, *running)
