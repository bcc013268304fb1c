"""Scheduling: measurements cut into shards, and shards executed on devices."""

from robench.scheduling.measure import Progress, measure, missing
from robench.scheduling.plan import plan
from robench.scheduling.processes import ProcessExecutor, answers_in_a_process
from robench.scheduling.queue import ShardQueue
from robench.scheduling.serial import SerialExecutor
from robench.scheduling.worker_process import DEFAULT_LIMIT_SECONDS, Death

__all__ = [
    "DEFAULT_LIMIT_SECONDS",
    "Death",
    "ProcessExecutor",
    "Progress",
    "SerialExecutor",
    "ShardQueue",
    "answers_in_a_process",
    "measure",
    "missing",
    "plan",
]
