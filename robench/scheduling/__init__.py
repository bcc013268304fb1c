"""Scheduling: measurements cut into shards, and shards handed to executors."""

from robench.scheduling.measure import Progress, measure, missing, part_of, plan
from robench.scheduling.queue import ShardQueue

__all__ = ["Progress", "ShardQueue", "measure", "missing", "part_of", "plan"]
