"""Simulation of a run: the queue that hands out shards (``ShardQueue``), with workers in virtual time.

It says when a run would end on workers that are not at hand: nothing is measured, and a simulated hour takes
milliseconds.
"""

import heapq
from collections.abc import Callable, Sequence
from itertools import count

from robench.core.shard import Shard
from robench.scheduling.queue import ShardQueue

# Shards of an estimate for many numbers of workers; more are joined, since an estimate needs no finer grain.
MOST_SHARDS = 10_000


def makespan(shards: Sequence[Shard], cost: Callable[[Shard], float], num_workers: int) -> float:
    """Return the seconds in which workers measure shards, each once; ``cost`` is the seconds of one."""
    queue, last_result = ShardQueue(shards, cost), 0.0
    # Of workers that are free at one moment, the one that was given its shard first takes the next.
    order = count()
    free = [(0.0, next(order), worker) for worker in range(num_workers)]
    while free:
        now, _, worker = heapq.heappop(free)
        last_result = max(last_result, now)
        if (shard := queue.take(worker)) is not None:
            heapq.heappush(free, (now + cost(shard), next(order), worker))
    return last_result


def joined(shards: Sequence[Shard], most: int = MOST_SHARDS) -> list[Shard]:
    """Return the same examples in at most about ``most`` shards, each of neighbours of one measurement."""
    size = -(-len(shards) // most)
    if size <= 1:
        return list(shards)
    found: list[Shard] = []
    num_joined = 0
    for shard in shards:
        last = found[-1] if found else None
        follows = last is not None and last.measurement is shard.measurement and last.stop == shard.start
        if last is not None and follows and num_joined < size:
            found[-1] = Shard(measurement=shard.measurement, start=last.start, stop=shard.stop)
            num_joined += 1
        else:
            found.append(shard)
            num_joined = 1
    return found
