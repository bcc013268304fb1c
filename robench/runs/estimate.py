"""Estimated work of a run: passes, and the seconds that they take here."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from robench.core.errors import StoreError
from robench.core.protocols import Store
from robench.core.records import Manifest
from robench.core.shard import Measurement, Shard
from robench.scheduling.pace import Pace, Paces, Source, passes_of, weighted, weighted_passes

# From the start of worker processes to their first pass: the import of torch, and the loading of data and weights.
# Used where no calibration has measured it.
STARTUP_SECONDS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of some shards.

    Attributes:
        forward, backward: largest numbers of passes of single examples; see ``most_passes`` of perturbations.
        is_whole: whether the passes of every condition are known; the numbers omit unknown ones.
        seconds: time that the shards take one worker; None where it is unknown of any.
        known_seconds: time of the shards with an estimate.
        sources: number of shards by the origin of their estimate; None counts those without one.
    """

    forward: int
    backward: int
    is_whole: bool
    seconds: float | None
    known_seconds: float = 0.0
    sources: Mapping[Source | None, int] = field(default_factory=dict)

    def is_faster_alone(self, num_workers: int, startup_seconds: float = STARTUP_SECONDS) -> bool:
        """Return whether one process ends before ``num_workers`` new ones, which have to start first."""
        return self.seconds is not None and self.seconds < startup_seconds + self.seconds / num_workers


def work_of(shards: Iterable[Shard], paces: Paces) -> Work:
    """Return the work of shards, at some paces."""
    forward = backward = 0
    known_seconds = 0.0
    is_whole = True
    sources: Counter[Source | None] = Counter()
    costs: dict[int, tuple[int, int, bool, Pace | None]] = {}
    for shard in shards:
        measurement, size = shard.measurement, shard.stop - shard.start
        if id(measurement) not in costs:
            _, *passes, is_known = passes_of(measurement.condition)
            costs[id(measurement)] = passes[0], passes[1], is_known, pace_of(measurement, paces)
        forward_each, backward_each, is_known, pace = costs[id(measurement)]
        is_whole = is_whole and is_known
        forward += size * forward_each
        backward += size * backward_each
        known_seconds += 0.0 if pace is None else size * pace.seconds
        sources[None if pace is None else pace.source] += 1
    seconds = None if sources[None] else known_seconds
    return Work(
        forward=forward,
        backward=backward,
        is_whole=is_whole,
        seconds=seconds,
        known_seconds=known_seconds,
        sources={source: count for source, count in sources.items() if count},
    )


def pace_of(measurement: Measurement, paces: Paces) -> Pace | None:
    """Return the seconds that an example of a measurement takes; None if they are unknown."""
    return paces.of(measurement.key, measurement.checkpoint.name, weighted_passes(measurement.condition))


def measured_paces(
    measurements: Iterable[Measurement], store: Store, device: str | None, per_pass: Mapping[str, Pace]
) -> Paces:
    """Return the paces of a run, as far as its store knows them.

    Of each measurement the first record counts. ``device`` is the kind of device of the run, None for that of the
    latest result; for ``per_pass`` see ``Paces``.
    """
    paces = Paces(per_pass)
    known = {each.key: each for each in measurements}
    found: list[Manifest] = []
    # A run goes on without an estimate.
    with suppress(StoreError):
        found.extend(store.manifests(known.keys()))
    if device is None and found:
        device = max(found, key=lambda each: each.provenance.finished_at).provenance.device
    for each in found:
        measurement, header = known[each.shard.measurement_key], each.shard
        if each.provenance.device == device:
            seconds = each.provenance.seconds / (header.stop - header.start)
            name = measurement.checkpoint.name
            paces.add(measurement.key, name, seconds, weighted_passes(measurement.condition))
    return paces


def cost_of(paces: Paces) -> Callable[[Shard], float]:
    """Return a function from shards to their relative cost, by which they are put in order.

    A model whose time is unknown counts as the mean of the others.
    """
    usual = paces.usual_per_pass
    # A run may have a million shards of a thousand measurements.
    known: dict[int, float] = {}

    def cost(shard: Shard) -> float:
        measurement = shard.measurement
        if id(measurement) not in known:
            pace = pace_of(measurement, paces)
            _, forward, backward, _ = passes_of(measurement.condition)
            known[id(measurement)] = usual * weighted(forward, backward) if pace is None else pace.seconds
        return (shard.stop - shard.start) * known[id(measurement)]

    return cost
