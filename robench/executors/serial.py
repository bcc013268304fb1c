"""Serial execution: one shard after another in the process of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.executors.base import ExecutorBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial(ExecutorBase):
    """Execution in the process of the run, the reference for all other executors."""

    kind: ClassVar[str] = "serial"
    implementation: ClassVar[str] = "robench.executors.serial_impl:executor_of"
    is_in_process: ClassVar[bool] = True
