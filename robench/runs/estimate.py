"""Estimated work of a run: passes, and the seconds that they take here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.papers.cost import passes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from robench.core.shard import Shard

# Of the seconds of a forward and a backward pass together.
FORWARD_SHARE = 1 / 3
# From the start of worker processes to their first pass: the import of torch, and the loading of data and weights.
STARTUP_SECONDS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of some shards.

    Attributes:
        forward, backward: largest numbers of passes of single examples; see ``most_passes`` of perturbations.
        is_whole: whether the passes of every condition are known; the numbers omit unknown ones.
        seconds: time that the passes take in one worker; None where a model was not timed or passes are unknown.
    """

    forward: int
    backward: int
    is_whole: bool
    seconds: float | None

    def is_faster_alone(self, num_workers: int) -> bool:
        """Return whether one process ends before ``num_workers`` new ones, which have to start first."""
        return self.seconds is not None and self.seconds < STARTUP_SECONDS + self.seconds / num_workers


def work_of(shards: Iterable[Shard], seconds_per_example: Mapping[str, float]) -> Work:
    """Return the work of shards.

    Args:
        shards: what is to be measured.
        seconds_per_example: seconds of a forward and a backward pass of an example, by model, of those that were timed.
    """
    forward = backward = 0
    seconds: float | None = 0.0
    is_whole = True
    for shard in shards:
        size = shard.stop - shard.start
        _, forward_each, backward_each, is_known = passes_of(shard.measurement.condition)
        each = seconds_per_example.get(shard.measurement.checkpoint.name)
        is_whole = is_whole and is_known
        forward += size * forward_each
        backward += size * backward_each
        if seconds is not None:
            passes = FORWARD_SHARE * forward_each + (1 - FORWARD_SHARE) * backward_each
            seconds = None if each is None or not is_known else seconds + size * passes * each
    return Work(forward=forward, backward=backward, is_whole=is_whole, seconds=seconds)


def cost_of(seconds_per_example: Mapping[str, float]) -> Callable[[Shard], float]:
    """Return a function from shards to their relative cost, by which they are put in order.

    Args:
        seconds_per_example: as of ``work_of``; a model that was not timed counts as the mean of the others.
    """
    timed = list(seconds_per_example.values())
    usual = sum(timed) / len(timed) if timed else 1.0
    # A run may have a million shards of a thousand measurements.
    known: dict[int, float] = {}

    def cost(shard: Shard) -> float:
        measurement = shard.measurement
        if id(measurement) not in known:
            _, forward, backward, _ = passes_of(measurement.condition)
            each = seconds_per_example.get(measurement.checkpoint.name, usual)
            known[id(measurement)] = each * (FORWARD_SHARE * forward + (1 - FORWARD_SHARE) * backward)
        return (shard.stop - shard.start) * known[id(measurement)]

    return cost
