"""Execution in actors of a Ray cluster."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from robench.declarations.base import FieldProblem
from robench.executors.base import ExecutorBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray(ExecutorBase):
    """Execution in actors of a Ray cluster, by default one per GPU, or per CPU core.

    All machines need the same robench, and the same files at the same paths. Results are stored by the run itself.

    Attributes:
        address: cluster to connect to: ``auto``, ``host:port`` or ``ray://host:port``; None starts Ray on this machine
            for the time of the run.
        gpus_per_worker: number of GPUs of a worker, either a fraction such as 0.5 or a whole number; unused on CPUs.
        cpus_per_worker: number of CPU cores that a worker occupies, and of its processes that decode image files.
        start_timeout: time in seconds after which a run without any worker that is ready gives up.
    """

    kind: ClassVar[str] = "ray"
    implementation: ClassVar[str] = "robench.executors.ray_impl:executor_of"
    is_elsewhere: ClassVar[bool] = True

    address: str | None = None
    gpus_per_worker: Annotated[float, Gt(0), Le(64)] = 1.0
    cpus_per_worker: Annotated[float, Gt(0), Le(1024)] = 1.0
    start_timeout: Annotated[float, Ge(1), Le(86_400)] = 600.0

    @property
    def decode_workers(self) -> int:
        """Return one process a core."""
        return max(1, int(self.cpus_per_worker))

    def contradictions(self) -> list[FieldProblem]:
        """Return the problem of a number of GPUs that Ray cannot assign, and of an empty address."""
        found: list[FieldProblem] = []
        if self.gpus_per_worker > 1 and self.gpus_per_worker != int(self.gpus_per_worker):
            found.append(("gpus_per_worker", f"must be at most 1 or a whole number, got {self.gpus_per_worker}"))
        if self.address is not None and not self.address.strip():
            found.append(("address", "must be auto, host:port or ray://host:port, got an empty text"))
        return found
