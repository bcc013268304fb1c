"""Base class of executors, and the deaths of their workers, which cost shards and are counted by shard."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Protocol

from robench.core.protocols import Executor, Work
from robench.core.records import Failure, Provenance, Record
from robench.core.shard import Shard
from robench.declarations.base import DeclarationBase


class Evaluate(Protocol):
    """Evaluator of shards: ``following`` is the shard that will probably come next, to be read ahead."""

    def __call__(self, shard: Shard, following: Shard | None = None, /) -> Record | Failure:
        """Return the record of ``shard``, or the failure with the reason."""


# Between looks at workers whose events are not signalled, and at work that other runs have claimed.
SECONDS_BETWEEN_LOOKS = 0.25
MAX_DEATHS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPool:
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

    ``implementation`` names a function ``(declaration, pool) -> Executor`` (``core.protocols.Executor``). An executor
    decides where and when a shard is measured, never what: results are the same from all.

    Attributes:
        is_in_process: whether shards are measured one after another in the process of the run, so that models in memory
            can be measured and no shard has a time limit.
        is_elsewhere: whether workers are on other machines, whose devices are not looked for on this one.
    """

    is_in_process: ClassVar[bool] = False
    is_elsewhere: ClassVar[bool] = False

    @property
    def decode_workers(self) -> int:
        """Return the number of processes beside each worker elsewhere that decode image files."""
        return 1

    def executor(self, pool: WorkerPool) -> Executor:
        """Return the executor with its workers, which start when it is used.

        Raises:
            UsageError: there are no such workers.
        """
        made: Executor = self.implemented()(self, pool)
        return made


@dataclass(frozen=True, slots=True)
class Death:
    """End of a worker, with advice."""

    what: str
    advice: str


def needs_new_process(foreign_code: str, shard: Shard) -> bool:
    """Return whether a process that has run ``foreign_code``, empty for robench's alone, must not measure a shard.

    Code that is not robench's may have changed the process in a way that nobody notices.
    """
    return foreign_code not in ("", shard.measurement.foreign_code)


def following_in(work: Work, worker: Hashable, shard: Shard) -> Shard | None:
    """Return the shard that will probably follow, if the process of the worker may measure it after this one."""
    following = work.following(worker)
    is_same = following is not None and following.measurement.foreign_code == shard.measurement.foreign_code
    return following if is_same else None


class Deaths:
    """Deaths of the workers of a run, by shard."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._of: dict[str, list[Death]] = {}

    def failure(self, shard: Shard, death: Death) -> Failure | None:
        """Count a death during a shard; return the failure of a shard that ended too many workers."""
        deaths = self._of.setdefault(shard.key, [])
        deaths.append(death)
        if len(deaths) < MAX_DEATHS:
            return None
        counted = Counter(deaths)
        what = ", and ".join(f"{each.what}, {count} times" for each, count in counted.items())
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        return Failure(
            shard=shard.header,
            error=f"the {self._noun} {what}: {'; '.join(each.advice for each in counted)}",
            traceback="",
            provenance=Provenance(device="", versions={}, seconds=0.0, finished_at=now),
        )


def mistaken(answer: object) -> Death:
    """Return the death of a worker that answered something else than the result of its shard."""
    found = answer.shard.title if isinstance(answer, (Record, Failure)) else f"a {type(answer).__name__}"
    return Death(
        f"answered for another shard than the one it was given ({found})",
        "a model must not copy its process, as os.fork does, and let the copy go on",
    )


def late(limit_seconds: float) -> Death:
    """Return the death of a worker that was ended because it took too long."""
    return Death(f"took longer than {limit_seconds:g} s", "the model may hang; --shard-timeout gives it more time")


def silent(seconds: float) -> Death:
    """Return the death of a worker that was ended because it sent no heartbeat."""
    return Death(f"gave no sign of life for {seconds:g} s", "native code of the model, or of a library, may hang")
