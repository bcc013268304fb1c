"""Worker process, parent side: started, given tasks, watched, and ended with all its children."""

import multiprocessing
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait

from robench.core.child_processes import without_script
from robench.core.containment import ENVIRONMENT, KeptSettings
from robench.core.standard_output import StdoutDiverted
from robench.executors.base import SECONDS_BETWEEN_LOOKS, Death, late, silent
from robench.executors.worker import THREAD_VARIABLES, TOKEN_SIZE, GarbledError, Heartbeat, Inbox, work

# A day. Slow shards must not be mistaken for hanging ones: AutoAttack on a CPU may take hours per shard.
DEFAULT_LIMIT_SECONDS = 86_400.0
# Libraries are imported before the first task, possibly from a slow disk.
START_SECONDS = 600.0
SECONDS_BETWEEN_BEATS = 5.0
# A worker that sends no heartbeat for so long is stopped, or hangs in native code that holds the interpreter.
SILENT_SECONDS = 600.0
# The pipe closes first; freeing the memory of a large model takes a while.
SECONDS_TO_EXIT = 5.0
READ_SIZE = 1 << 20

GARBLED = Death(
    "wrote something other than its result into the pipe to the run",
    "a model must not write to descriptors that it did not open",
)
CLOSED = Death("closed its pipe to the run", "a model must not close descriptors that it did not open")


class WorkerProcess:
    """Spawned process that answers one task at a time; ``answer`` is sent to it when it starts.

    With ``imports_script`` it imports the user's script, in which parts of the answer or of tasks were defined.
    """

    def __init__(self, answer: Callable[..., object], limit_seconds: float, *, imports_script: bool) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        token = secrets.token_bytes(TOKEN_SIZE)
        arguments = there, answer, token, SECONDS_BETWEEN_BEATS
        self._process = context.Process(target=work, args=arguments, name="robench-worker", daemon=False)
        with _settings_of_a_child(), nullcontext() if imports_script else without_script():
            self._process.start()
        there.close()
        assert self._process.pid is not None  # it was started
        self._group = self._process.pid
        self.pipe = here
        self.is_ready = False
        self._inbox = Inbox(token)
        self._limit_seconds = limit_seconds
        self._begun: float | None = None
        self._heard = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the ended process; negative for a signal."""
        return self._process.exitcode

    def hand(self, *task: object) -> None:
        """Give it a task, the arguments of its answer."""
        self._begun = self._heard = time.monotonic()
        # A dead process is detected later.
        with suppress(OSError):
            self.pipe.send(task)

    def look(self) -> object | Death | None:
        """Return its answer, or how it ended instead, or None while it is busy."""
        is_alive = self._process.is_alive()
        try:
            # Messages sent before it died are processed.
            answers = self._received()
        except GarbledError:
            return GARBLED
        except (EOFError, OSError):
            return _ended(self.exit_code) if self._ends_within(SECONDS_TO_EXIT) else CLOSED
        if answers:
            self._begun = None
            return answers[0]
        if not is_alive:
            # A process that it forked may keep its end of the pipe open, so that the pipe gives no signal.
            return _ended(self.exit_code)
        return self._late()

    def end(self, patience_seconds: float = 0.0) -> None:
        """End the process and all its children; one that was asked to exit (``dismiss``) is given some time."""
        self._ends_within(patience_seconds)
        self._kill_group()
        self._process.join()
        self._kill_group()
        self.pipe.close()

    def dismiss(self) -> None:
        """Ask it to exit."""
        with suppress(OSError):
            self.pipe.send(None)

    def _received(self) -> list[object]:
        answers: list[object] = []
        while not answers and self.pipe.poll():
            data = os.read(self.pipe.fileno(), READ_SIZE)
            if not data:
                raise EOFError
            self._heard = time.monotonic()
            answers = [each for each in self._inbox.messages(data) if not isinstance(each, Heartbeat)]
            if answers and not self.is_ready:
                # The first message reports that it is ready, so that start-up time counts for no task.
                del answers[0]
                self.is_ready = True
                self._begun = time.monotonic()
        if len(answers) > 1:
            raise GarbledError
        return answers

    def _late(self) -> Death | None:
        assert self._begun is not None  # only busy workers are watched
        limit = self._limit_seconds if self.is_ready else max(START_SECONDS, self._limit_seconds)
        now = time.monotonic()
        if now - self._begun >= limit:
            return late(limit)
        return silent(SILENT_SECONDS) if self.is_ready and now - self._heard >= SILENT_SECONDS else None

    def _ends_within(self, seconds: float) -> bool:
        # ``join`` waits forever once a model has closed the descriptor that it reads.
        last = time.monotonic() + seconds
        while (is_alive := self._process.is_alive()) and time.monotonic() < last:
            time.sleep(0.01)
        return not is_alive

    def _kill_group(self) -> None:
        # The group exists as long as any member; before the worker created it, only the process does.
        with suppress(OSError):
            os.killpg(self._group, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()


def wait_for(workers: Sequence[WorkerProcess]) -> None:
    """Wait briefly until one of them has sent something; not every event is signalled."""
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
    """Make a worker inherit one thread, a stdout that goes to stderr, and blocked SIGINT.

    Only the parent handles Ctrl-C. Blocked from the start, it does not interrupt a worker during imports either.
    """
    # Otherwise started with the first child, which also unblocks SIGINT.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with KeptSettings([ENVIRONMENT]), StdoutDiverted():
            os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
