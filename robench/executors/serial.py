"""Serial execution: one shard after another in the process of the run."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from robench.core.protocols import Work
from robench.core.records import Failure, Record
from robench.executors.base import SECONDS_BETWEEN_LOOKS, Evaluate, ExecutorBase, WorkerPool, following_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial(ExecutorBase):
    """Execution in the process of the run, the reference for all other executors."""

    kind: ClassVar[str] = "serial"
    implementation: ClassVar[str] = "robench.executors.serial:executor_of"
    is_in_process: ClassVar[bool] = True


class SerialExecutor:
    """Serial executor, the reference for every other executor (``core.protocols.Executor``)."""

    def __init__(self, evaluator: Evaluate) -> None:
        self._evaluator = evaluator
        self._draining = False

    @property
    def num_workers(self) -> int:
        """Return 0: no process is started."""
        return 0

    def execute(self, work: Work) -> Iterator[Record | Failure]:
        """Yield the result of each shard in the order of ``work``."""
        while len(work) and not self._draining:
            shard = work.take(self)
            if shard is None:
                time.sleep(SECONDS_BETWEEN_LOOKS)
            else:
                yield self._evaluator(shard, following_in(work, self, shard))

    def drain(self) -> None:
        """Start no further shards."""
        self._draining = True


def executor_of(declaration: Serial, pool: WorkerPool) -> SerialExecutor:
    """Return the executor with the only evaluator of ``pool``."""
    return SerialExecutor(pool.make(pool.devices[0]))
