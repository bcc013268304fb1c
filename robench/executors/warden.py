"""Watchdog process that ends a run's workers if the run was killed.

A worker watches its parent in a thread, which does not run while native code of a model hangs and holds the
interpreter; and processes forked by a model have no such thread. The warden needs neither. It is started from this file
alone, so that it imports nothing of robench.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing import spawn
from types import TracebackType

SECONDS_BETWEEN_LOOKS = 0.5


class Warden:
    """Context manager in which process groups are ended if this process is killed."""

    def __enter__(self) -> Warden:
        executable = os.fsdecode(spawn.get_executable() or sys.executable)
        self._process = subprocess.Popen(
            [executable, "-I", "-S", __file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Signals to the run's own group, such as Ctrl-C, must not reach it.
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        # It has nothing left to do; it cannot detect this if a process forked by a model keeps its pipe open.
        self._process.kill()
        self._process.wait()

    def watch(self, group: int) -> None:
        """End this process group if the run is killed."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Stop watching this process group: it has ended, and its number may be reused."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # Without a warden the workers' own threads are left.
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), line.encode())


def stand_guard(parent: int) -> None:
    """Read process groups from stdin until the parent is gone, and end the remaining ones."""
    groups: set[int] = set()
    held, is_left = b"", False
    while not is_left:
        # Read last, so that messages of the parent are processed even if it ended before this process started.
        is_left = os.getppid() != parent
        if select.select([0], [], [], 0 if is_left else SECONDS_BETWEEN_LOOKS)[0]:
            received = os.read(0, 4096)
            is_left = not received
            *lines, held = (held + received).split(b"\n")
            for line in lines:
                (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    stand_guard(int(sys.argv[1]))
