"""Training of a checkpoint to its file of weights, and of many side by side in processes of low priority.

Each process of a queue trains one checkpoint at a time and stores its state after every epoch. A queue that was stopped
in any way therefore goes on after the last complete epoch of each.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import median

from robench.core.checkpoint import Checkpoint
from robench.core.child_processes import refers_to_script
from robench.core.containment import Contained, attributed_to
from robench.core.errors import RobenchError, described
from robench.core.identity import key_of, to_plain
from robench.core.providers import foreign_in
from robench.executors import Death
from robench.executors.worker_process import WorkerProcess, wait_for
from robench.training.base import EpochReport, Host
from robench.training.history import Epoch, History, read_history

# Of a queue's processes, so that other work on the machine goes first.
NICENESS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Training to be done: a checkpoint, its device and state, and the file of its history."""

    checkpoint: Checkpoint
    host: Host
    history: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Result of a training: the content of its file of weights (safetensors), or the error that ended it."""

    content: bytes = b""
    error: str = ""


@dataclass(slots=True, kw_only=True)
class QueueProgress:
    """Progress of a queue.

    Attributes:
        num_jobs: number of trainings; ``num_ended``: of the ended ones.
        running: number of epochs, and those completed, of each training in progress, by its checkpoint's name.
        seconds_left: estimate for the rest of the queue; None while epochs of a kind that is left were not timed.
    """

    num_jobs: int
    num_ended: int = 0
    running: dict[str, tuple[int, tuple[Epoch, ...]]] = field(default_factory=dict)
    seconds_left: float | None = None


def weights_of(job: Job, on_epoch: Callable[[EpochReport], None] = lambda report: None) -> bytes:
    """Train a checkpoint in this process and return the content of its file of weights.

    Raises:
        RobenchError: it cannot be trained.
    """
    from safetensors.torch import save

    checkpoint = job.checkpoint
    training = checkpoint.training
    assert training is not None  # jobs are of checkpoints with training fields
    architecture = checkpoint.architecture
    is_users = architecture.runs_user_code or foreign_in((architecture, training)) is not None
    containment = attributed_to(f"model {checkpoint.name!r} cannot be trained") if is_users else Contained()
    precision = job.host.precision
    history = History(job.history, checkpoint=checkpoint.name, dataset=training.dataset, precision=precision)

    def reported(report: EpochReport) -> None:
        history.add(report)
        on_epoch(report)

    with containment:
        return save(training.implemented()(checkpoint, job.host, reported))


def _lower_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    # Linux may share processors among sessions first, and each worker process is one.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def _answer(job: Job) -> Trained:
    _lower_priority()
    try:
        return Trained(content=weights_of(job))
    except RobenchError as error:
        return Trained(error="\n".join(error.lines))
    # Broad because models and optimisers raise errors of any class, and no training stops another one.
    except Exception as error:
        return Trained(error=f"it raised {described(error)}")


def run_queue(
    jobs: Sequence[Job], num_processes: int, on_progress: Callable[[QueueProgress], None]
) -> Iterator[tuple[Job, Trained]]:
    """Yield trainings as they end; at most ``num_processes`` are in progress, and they begin in the order of ``jobs``.

    A training that fails, or whose process dies, stops no other one.
    """
    waiting, clock = deque(jobs), _Clock(jobs, num_processes)
    imports_script = refers_to_script(jobs)
    # Each process has one training at a time.
    busy: dict[WorkerProcess, Job] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < num_processes:
                process = WorkerProcess(_answer, inf, imports_script=imports_script)
                _hand_next(process, waiting, busy)
            wait_for(list(busy))
            for process, job in list(busy.items()):
                if (found := process.look()) is None:
                    continue
                del busy[process]
                if waiting and isinstance(found, Trained):
                    _hand_next(process, waiting, busy)
                else:
                    process.end()
                clock.ended(job)
                yield job, found if isinstance(found, Trained) else Trained(error=_how(found))
            if clock.moved(busy.values()):
                on_progress(clock.progress)
    finally:
        for process in busy:
            process.end()


def _hand_next(process: WorkerProcess, waiting: deque[Job], busy: dict[WorkerProcess, Job]) -> None:
    busy[process] = waiting.popleft()
    process.hand(busy[process])


def _how(found: object) -> str:
    what, advice = (
        (found.what, found.advice) if isinstance(found, Death) else ("sent an invalid answer", "run it again")
    )
    return f"its process {what}; {advice}"


class _Clock:
    """Progress of a queue, read off the histories of its trainings."""

    def __init__(self, jobs: Sequence[Job], num_processes: int) -> None:
        self._num_processes = num_processes
        self._left = {job.checkpoint.name: _num_epochs(job) - len(_epochs(job)) for job in jobs}
        self._kinds = {job.checkpoint.name: _kind_of(job) for job in jobs}
        self._seen: dict[str, tuple[int, float]] = {}
        # Seconds of the epochs of each kind of training, but for the first ones, which load libraries and data.
        self._seconds: dict[Hashable, list[float]] = {}
        self._timed: set[str] = set()
        self._has_moved = False
        self.progress = QueueProgress(num_jobs=len(jobs))

    def ended(self, job: Job) -> None:
        """Count a training that has ended."""
        self._left.pop(job.checkpoint.name, None)
        self.progress.running.pop(job.checkpoint.name, None)
        self.progress.num_ended += 1
        self._has_moved = True

    def moved(self, running: Iterable[Job]) -> bool:
        """Read the histories; return whether an epoch or a training was begun or ended since the last call."""
        has_moved, now = self._has_moved, time.monotonic()
        self._has_moved = False
        for job in running:
            name, epochs = job.checkpoint.name, _epochs(job)
            before, since = self._seen.get(name, (-1, now))
            if len(epochs) == before:
                continue
            if name in self._timed:
                self._seconds.setdefault(self._kinds[name], []).append((now - since) / (len(epochs) - before))
            elif before >= 0:
                self._timed.add(name)
            has_moved = True
            self._seen[name] = len(epochs), now
            self._left[name] = _num_epochs(job) - len(epochs)
            self.progress.running[name] = _num_epochs(job), epochs
        self.progress.seconds_left = self._seconds_left()
        return has_moved

    def _seconds_left(self) -> float | None:
        """Return the time of the longest training, or of all shared by the processes, whichever is longer."""
        left: list[float] = []
        for name, num_epochs in self._left.items():
            timed = self._seconds.get(self._kinds[name])
            if num_epochs and not timed:
                return None
            left.append(num_epochs * median(timed) if timed else 0.0)
        return max(sum(left) / self._num_processes, max(left)) if left else None


def _kind_of(job: Job) -> Hashable:
    """Return a key of trainings whose epochs take equal times: all but the seed."""
    checkpoint = job.checkpoint
    assert checkpoint.training is not None
    return key_of([to_plain(checkpoint.architecture), to_plain(checkpoint.training.seeded(0)), job.host.device])


def _num_epochs(job: Job) -> int:
    assert job.checkpoint.training is not None
    return job.checkpoint.training.total_epochs


def _epochs(job: Job) -> tuple[Epoch, ...]:
    try:
        return read_history(job.history).epochs
    except RobenchError:
        return ()
