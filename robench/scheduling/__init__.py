"""Scheduling: shards handed to executors, and their results to a store."""

from robench.scheduling.measure import Listener, Progress, Watch, run_shards
from robench.scheduling.queue import ShardQueue

__all__ = ["Listener", "Progress", "ShardQueue", "Watch", "run_shards"]
