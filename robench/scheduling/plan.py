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
