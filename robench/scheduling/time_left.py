"""Time left of a run, from what it has measured itself: withheld until it is known within a factor of three.

Each measurement has bounds of the seconds of an example. They are close where it has been measured, wider where others
of its kind have been, and open where nothing like it has, so that a cheap beginning says nothing of a costly end.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from math import inf, sqrt

from robench.core.records import Failure, Record
from robench.core.shard import Measurement, Shard
from robench.scheduling.pace import passes_of, weighted_passes

# An estimate is the geometric mean of the bounds, here at most 2.8 times away from either; the true time may be up to
# three times away.
CLOSE_ENOUGH = 8.0
# By what the seconds of an example may differ from the mean of its measurement; and those of a pass from the slowest of
# the model, from that of other models relative to timed passes, and from a pass that was timed on a few rows.
OF_MEASUREMENT, OF_MODEL, OF_OTHERS, OF_TIMED = 1.5, 1.5, 2.5, 4.0
# A search that ends early needs fewer passes than the most; work that needed this part of them does not end early.
STEADY = 0.8
SECONDS_BETWEEN_ESTIMATES = 1.0

Bounds = tuple[float, float]


class TimeLeft:
    """Clock of a run: from when shards begin and end it estimates how long the rest takes.

    Args:
        shards: all that is to be measured.
        num_workers: number of workers that measure side by side.
        seconds_per_pass: seconds of a forward and a backward pass of an example by model, where a few were timed.
        clock: function that returns the time in seconds.
    """

    def __init__(
        self,
        shards: Iterable[Shard],
        num_workers: int,
        seconds_per_pass: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_workers = max(1, num_workers)
        self._per_pass = dict(seconds_per_pass or {})
        self._clock = clock
        self._shards = {shard.key: shard for shard in shards}
        self._measurements = {shard.measurement.key: shard.measurement for shard in self._shards.values()}
        # Examples that wait, and the largest shard, of each measurement: there may be a million shards.
        self._waiting: Counter[str] = Counter()
        self._largest: dict[str, int] = {}
        for shard in self._shards.values():
            key, size = shard.measurement.key, shard.stop - shard.start
            self._waiting[key] += size
            self._largest[key] = max(size, self._largest.get(key, 0))
        # When each shard under way began, and whether its worker had to load the model first.
        self._running: dict[str, tuple[float, bool]] = {}
        self._loaded: dict[Hashable, str] = {}
        # Seconds and examples of each measurement; and the seconds of a pass, by model and by kind of work.
        self._measured: dict[str, tuple[float, int]] = {}
        self._of_model: dict[str, dict[str, float]] = {}
        self._of_kind: dict[Hashable, dict[str, tuple[str, float]]] = {}
        self._latest: tuple[float, float | None] = -inf, None

    def begins(self, worker: Hashable, shard: Shard) -> None:
        """Note that a worker has been given a shard."""
        model = shard.measurement.checkpoint.name
        self._waiting[shard.measurement.key] -= shard.stop - shard.start
        self._running[shard.key] = self._clock(), self._loaded.get(worker) != model
        self._loaded[worker] = model

    def stops(self, shard: Shard) -> None:
        """Note that a shard was given back without a result."""
        if self._running.pop(shard.key, None) is not None:
            self._waiting[shard.measurement.key] += shard.stop - shard.start

    def ends(self, result: Record | Failure) -> None:
        """Note that a shard has a result.

        Its time is that since it began, or where the model was loaded first, that of the measurement alone.
        """
        key, seconds = result.shard.key, result.provenance.seconds
        began, loads = self._running.pop(key, (0.0, True))
        if isinstance(result, Failure) or key not in self._shards:
            return
        if not loads:
            seconds = max(seconds, self._clock() - began)
        shard = self._shards[key]
        measurement, size = shard.measurement, shard.stop - shard.start
        before = self._measured.get(measurement.key, (0.0, 0))
        total, count = before[0] + seconds, before[1] + size
        self._measured[measurement.key] = total, count
        if (passes := _passes(measurement)) is not None:
            model, of_pass = measurement.checkpoint.name, total / count / passes
            self._of_model.setdefault(model, {})[measurement.key] = of_pass
            self._of_kind.setdefault(_kind_of(measurement), {})[measurement.key] = model, of_pass

    def seconds(self) -> float | None:
        """Return the seconds until the last shard ends, at most a second old; None where they are not known."""
        now = self._clock()
        if now - self._latest[0] >= SECONDS_BETWEEN_ESTIMATES:
            self._latest = now, self._estimated(now)
        return self._latest[1]

    def _estimated(self, now: float) -> float | None:
        running = [(self._shards[key], now - began) for key, (began, _) in self._running.items()]
        bounds = {key: self._bounds(self._measurements[key]) for key, size in self._waiting.items() if size}
        bounds |= {shard.measurement.key: self._bounds(shard.measurement) for shard, _ in running}
        for shard, elapsed in running:
            key, so_far = shard.measurement.key, elapsed / (shard.stop - shard.start)
            if key not in self._measured:
                bounds[key] = max(bounds[key][0], so_far), max(bounds[key][1], 2 * so_far)
        parts, alone = [], []
        for key, (low, high) in bounds.items():
            if size := self._waiting[key]:
                parts.append((size * low, size * high))
                alone.append((self._largest[key] * low, self._largest[key] * high))
        for shard, elapsed in running:
            low, high = ((shard.stop - shard.start) * each for each in bounds[shard.measurement.key])
            # One that is late may be late by much.
            rest = max(0.0, low - elapsed), max(high - elapsed, elapsed / 2)
            parts.append(rest)
            alone.append(rest)
        if not parts:
            return None
        lows, highs = zip(*parts, strict=True)
        longest = max(each for each, _ in alone), max(each for _, each in alone)
        # Workers are busy until the queue is empty, so that at most the longest shard is alone at the end.
        low = max(sum(lows) / self._num_workers, longest[0])
        high = sum(highs) / self._num_workers + longest[1] * (1 - 1 / self._num_workers)
        return sqrt(low * high) if 0 < low <= high <= CLOSE_ENOUGH * low else None

    def _bounds(self, measurement: Measurement) -> Bounds:
        """Return the least and the most seconds that an example of a measurement takes."""
        if measurement.key in self._measured:
            seconds, count = self._measured[measurement.key]
            return seconds / count / OF_MEASUREMENT, seconds / count * OF_MEASUREMENT
        passes, slowest = _passes(measurement), self._slowest_pass(measurement.checkpoint.name)
        if passes is None:
            return 0.0, inf
        if not (steadiness := self._steadiness(_kind_of(measurement))):
            return 0.0, passes * slowest * OF_TIMED
        factor = OF_MODEL if measurement.checkpoint.name in self._of_model else OF_OTHERS
        return steadiness * passes * slowest / factor, passes * slowest * factor

    def _slowest_pass(self, model: str) -> float:
        """Return the most seconds of a pass of a model: its own, or those of others by passes that were timed."""
        timed = self._per_pass.get(model, inf)
        if own := self._of_model.get(model):
            return max(timed, *own.values())
        if timed == inf:
            return inf
        others = [
            self._slowest_pass(other) / self._per_pass[other] for other in self._of_model if other in self._per_pass
        ]
        return max(others, default=inf) * timed

    def _steadiness(self, kind: Hashable) -> float:
        """Return the least part of its most passes that work of a kind has needed, 0 where it may need hardly any."""
        found = [each / self._slowest_pass(model) for model, each in self._of_kind.get(kind, {}).values()]
        return min(found) if len(found) > 1 and min(found) >= STEADY else 0.0


def _passes(measurement: Measurement) -> float | None:
    """Return the most passes of an example, and one more for what it takes beside them; None if they are unknown."""
    passes = weighted_passes(measurement.condition)
    return None if passes is None else 1 + passes


def _kind_of(measurement: Measurement) -> Hashable:
    """Return a key of measurements of about equal cost: action, dataset, type of perturbation and passes."""
    condition = measurement.condition
    return condition.action.kind, condition.dataset.name, condition.perturbation.kind, passes_of(condition)
