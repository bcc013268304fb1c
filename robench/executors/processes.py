"""Execution in worker processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.executors.base import ExecutorBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes(ExecutorBase):
    """Execution in worker processes of this machine, by default one per GPU, or per CPU core."""

    kind: ClassVar[str] = "processes"
    implementation: ClassVar[str] = "robench.executors.processes_impl:executor_of"
