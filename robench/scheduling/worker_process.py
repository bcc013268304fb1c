"""A worker process from the outside: started, handed tasks, watched, and ended with all that it started."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from robench.core.standard_output import StdoutDiverted
from robench.scheduling.worker import THREAD_VARIABLES, TOKEN_SIZE, GarbledError, Inbox, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from robench.scheduling.warden import Warden

# A day. What is measured slowly is not to be taken for what hangs: AutoAttack on a CPU may take hours a shard.
DEFAULT_LIMIT_SECONDS = 86_400.0
# Libraries are imported before the first task, from a slow disk perhaps.
START_SECONDS = 600.0
SECONDS_BETWEEN_LOOKS = 0.25
# The pipe closes first, and the memory of a large model takes a while to be given back.
SECONDS_TO_EXIT = 5.0
READ_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class Death:
    """End of a worker, and what may be done about it."""

    what: str
    advice: str


GARBLED = Death(
    "wrote something other than its result into the pipe to the run",
    "a model must not write to descriptors that it did not open",
)
CLOSED = Death("closed its pipe to the run", "a model must not close descriptors that it did not open")


class WorkerProcess:
    """One spawned process that answers one task at a time; ``answer`` is sent to it when it starts."""

    def __init__(self, answer: Callable[[Any], object], warden: Warden, limit_seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        token = secrets.token_bytes(TOKEN_SIZE)
        self._process = context.Process(target=work, args=(there, answer, token), name="robench-worker", daemon=False)
        with _settings_of_a_child():
            self._process.start()
        there.close()
        assert self._process.pid is not None  # it was started
        self._group = self._process.pid
        warden.watch(self._group)
        self.pipe = here
        self.is_ready = False
        self._warden = warden
        self._inbox = Inbox(token)
        self._limit_seconds = limit_seconds
        self._begun: float | None = None

    @property
    def is_busy(self) -> bool:
        """True while it has a task and did not answer yet."""
        return self._begun is not None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the ended process, a signal's number below zero."""
        return self._process.exitcode

    def hand(self, task: object) -> None:
        """Give it a task."""
        self._begun = time.monotonic()
        # One that is dead will be found to be so.
        with suppress(OSError):
            self.pipe.send(task)

    def look(self) -> object | Death | None:
        """Return its answer, or how it ended in place of one, or None while it is at work."""
        is_alive = self._process.is_alive()
        try:
            # What it said before it died counts.
            answers = self._received()
        except GarbledError:
            return GARBLED
        except (EOFError, OSError):
            return self._gone()
        if answers:
            self._begun = None
            return answers[0]
        if not is_alive:
            # A process that it forked may hold its end of the pipe open, which then says nothing.
            return _ended(self.exit_code)
        return self._late()

    def end(self, patience_seconds: float = 0.0) -> None:
        """End the process and all that it started; one asked to end before (``dismiss``) is given some time."""
        self._ends_within(patience_seconds)
        self._kill_group()
        self._process.join()
        self._kill_group()
        self._warden.forget(self._group)
        self.pipe.close()

    def dismiss(self) -> None:
        """Ask it to end."""
        with suppress(OSError):
            self.pipe.send(None)

    def _received(self) -> list[object]:
        answers: list[object] = []
        while not answers and self.pipe.poll():
            data = os.read(self.pipe.fileno(), READ_SIZE)
            if not data:
                raise EOFError
            answers = self._inbox.messages(data)
            if answers and not self.is_ready:
                # The first message says that it is ready: what it took to start counts for no task.
                del answers[0]
                self.is_ready = True
                self._begun = time.monotonic()
        if len(answers) > 1:
            raise GarbledError
        return answers

    def _gone(self) -> Death:
        return _ended(self.exit_code) if self._ends_within(SECONDS_TO_EXIT) else CLOSED

    def _late(self) -> Death | None:
        assert self._begun is not None  # only the busy are looked after
        limit = self._limit_seconds if self.is_ready else max(START_SECONDS, self._limit_seconds)
        if time.monotonic() - self._begun < limit:
            return None
        return Death(f"took longer than {limit:g} s", "the model may hang; --shard-timeout gives it more time")

    def _ends_within(self, seconds: float) -> bool:
        # ``join`` waits for ever once a model closed the descriptor that it listens to.
        last = time.monotonic() + seconds
        while (is_alive := self._process.is_alive()) and time.monotonic() < last:
            time.sleep(0.01)
        return not is_alive

    def _kill_group(self) -> None:
        # The group is there as long as anything in it is; before the worker made it, the process alone.
        with suppress(OSError):
            os.killpg(self._group, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()


def wait_for(workers: Sequence[WorkerProcess]) -> None:
    """Wait until one of them has said something, for a moment at most: not all that happens to them is heard."""
    wait([worker.pipe for worker in workers], timeout=SECONDS_BETWEEN_LOOKS)


def _ended(exit_code: int | None) -> Death:
    if exit_code is None or exit_code >= 0:
        return Death(f"ended itself with exit code {exit_code}", "a model must not end its process, as os._exit does")
    number = -exit_code
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL:
        return Death(f"was killed ({name})", "memory may be short: try fewer --workers")
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return Death(f"was ended from outside ({name})", "run it again")
    return Death(f"crashed ({name})", "native code of the model, or of a library that it uses, failed")


@contextmanager
def _settings_of_a_child() -> Iterator[None]:
    """Let a worker inherit one thread, a stdout that leads to stderr, and deafness to Ctrl-C.

    The parent alone decides what Ctrl-C means. Blocked from birth, it does not hit a worker while it imports either.
    """
    # Started with the first child otherwise, and then it unblocks SIGINT in passing.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        with StdoutDiverted():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
