"""Base class of executors: where and by how many workers shards are measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from robench.declarations.base import DeclarationBase

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from robench.core.protocols import Executor
    from robench.core.records import Failure, Record
    from robench.core.shard import Shard

    class Evaluate(Protocol):
        """Evaluator of shards: ``following`` is the shard that will probably come next, to be read ahead."""

        def __call__(self, shard: Shard, following: Shard | None = None, /) -> Record | Failure:
            """Return the record of ``shard``, or the failure with the reason."""


# Between looks at workers whose events are not signalled, and at work that other runs have claimed.
SECONDS_BETWEEN_LOOKS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Workers that a run asks an executor for.

    Attributes:
        make: returns the evaluator of a worker, given the name of its device such as ``cpu`` or ``cuda:1``. It can be
            sent to other processes, also on machines with the same files.
        devices: name of the device of each worker; empty for executors whose workers are elsewhere.
        device: device as asked for: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        num_workers: number of workers asked for; None for the executor's choice.
        shard_timeout: time limit in seconds of a shard; None for the default.
    """

    make: Callable[[str], Evaluate]
    devices: tuple[str, ...] = ()
    device: str = "auto"
    num_workers: int | None = None
    shard_timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorBase(DeclarationBase):
    """Base class of declarations of executors.

    ``implementation`` names a function ``(declaration, crew) -> Executor`` (``core.protocols.Executor``). An executor
    decides where and when a shard is measured, never what: results are the same from all.

    Attributes:
        is_in_process: whether shards are measured one after another in the process of the run, so that models in memory
            can be measured and no shard has a time limit.
        is_elsewhere: whether workers are on other machines, whose devices are not looked for on this one.
    """

    is_in_process: ClassVar[bool] = False
    is_elsewhere: ClassVar[bool] = False

    def executor(self, crew: Crew) -> Executor:
        """Return the executor with its workers, which start when it is used.

        Raises:
            UsageError: there are no such workers.
        """
        made: Executor = self.implemented()(self, crew)
        return made
