"""From measurements to shards, and from shards to devices."""

from robench.scheduling.measure import Progress, measure, missing
from robench.scheduling.plan import plan
from robench.scheduling.processes import ProcessExecutor
from robench.scheduling.serial import SerialExecutor

__all__ = ["ProcessExecutor", "Progress", "SerialExecutor", "measure", "missing", "plan"]
