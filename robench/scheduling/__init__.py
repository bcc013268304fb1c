"""Scheduling: measurements cut into shards, and shards handed to executors."""

from robench.scheduling.measure import Progress, missing, part_of, plan, run_shards
from robench.scheduling.queue import ShardQueue

__all__ = ["Progress", "ShardQueue", "missing", "part_of", "plan", "run_shards"]
