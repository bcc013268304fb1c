"""Executors: where and by how many workers shards are measured."""

from robench.core.plugins import Plugins
from robench.executors.base import Death, ExecutorBase, WorkerPool
from robench.executors.processes import Processes, ProcessExecutor, answers_in_a_process
from robench.executors.ray import Ray
from robench.executors.serial import Serial, SerialExecutor
from robench.executors.worker_process import DEFAULT_LIMIT_SECONDS

_BUILTIN: dict[str, type[ExecutorBase]] = {"serial": Serial, "processes": Processes, "ray": Ray}
EXECUTORS = Plugins("executor", _BUILTIN, base=ExecutorBase)
# The default executor.
IN_PROCESS: ExecutorBase = Serial()
ON_THIS_MACHINE: ExecutorBase = Processes()

__all__ = [
    "DEFAULT_LIMIT_SECONDS",
    "EXECUTORS",
    "IN_PROCESS",
    "ON_THIS_MACHINE",
    "Death",
    "ExecutorBase",
    "ProcessExecutor",
    "Processes",
    "Ray",
    "Serial",
    "SerialExecutor",
    "WorkerPool",
    "answers_in_a_process",
]
