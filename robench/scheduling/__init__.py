"""Scheduling: shards handed to executors, and their results to a store."""

from robench.scheduling.measure import Progress, run_shards
from robench.scheduling.queue import ShardQueue

__all__ = ["Progress", "ShardQueue", "run_shards"]
