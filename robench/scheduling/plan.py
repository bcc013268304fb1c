"""Division of measurements into shards with bounds that depend on the suite alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from robench.core.shard import Measurement


def plan(measurements: Iterable[Measurement], batches_per_shard: int, limit: int | None = None) -> Iterator[Shard]:
    """Yield the shards of each measurement in turn, so that a model stays loaded while it is needed.

    ``limit`` requests the first examples alone, rounded up to whole shards, which are the same as in the unlimited run:
    every forward pass has ``batch_size`` rows anyway, so that the rest of a batch costs nothing.
    """
    for measurement in measurements:
        size = measurement.batch_size * batches_per_shard
        wanted = measurement.num_examples if limit is None else min(limit, measurement.num_examples)
        for start in range(0, wanted, size):
            yield Shard(measurement=measurement, start=start, stop=min(start + size, measurement.num_examples))


def part_of(shards: Iterable[Shard], number: int, count: int) -> list[Shard]:
    """Return part ``number`` (from 1) of ``count`` parts of a plan, in the order of the plan and each shard once.

    The shards of each measurement, sorted by key, are dealt to the parts in turn: parts differ by at most one shard,
    and each has about the same share of every measurement. Only the plan and the keys count, so that machines that
    know nothing of each other measure different parts.
    """
    planned = {shard.key: shard for shard in shards}
    by_measurement: dict[str, list[str]] = {}
    for key, shard in planned.items():
        by_measurement.setdefault(shard.measurement.key, []).append(key)
    dealt = [key for keys in by_measurement.values() for key in sorted(keys)]
    mine = set(dealt[number - 1 :: count])
    return [shard for key, shard in planned.items() if key in mine]
