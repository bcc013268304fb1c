"""Measuring of a prepared run under a progress display, with handling of Ctrl-C, SIGTERM and SIGUSR1."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from robench.cli.main import INTERRUPTED, TERMINATED, Terminated
from robench.cli.progress import progress_shown
from robench.cli.terminal import say

if TYPE_CHECKING:
    from types import FrameType

    from robench.core.protocols import Executor, Store
    from robench.runs import PreparedRun
    from robench.scheduling import Progress


def fill_with_progress(prepared: PreparedRun, store: Store) -> tuple[int, Progress]:
    """Measure what ``store`` lacks; return the exit code of an interruption, or 0, and the progress.

    The first Ctrl-C or SIGTERM drains, the second raises KeyboardInterrupt. SIGUSR1 raises ``GivenUp`` at once, so that
    shards under way are given up.
    """
    executor = prepared.executor(store)
    num_shards = len(prepared.todo(store))
    # Workers that are elsewhere are counted only for work, since this may start them.
    count = min(executor.num_workers, num_shards) if num_shards else 0
    if count:
        say(f"starting {count} worker{'s' * (count != 1)}")
    interrupts = _Interrupts(executor)
    before = {number: signal.signal(number, interrupts) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with progress_shown(len(prepared.mine) + len(prepared.of_others)) as on_progress:
            progress = prepared.fill(store, executor, on_progress)
        return interrupts.exit_code, progress
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Interrupts:
    """Signal handler that first drains, then stops; ``exit_code`` is that of the first signal, 0 before it."""

    def __init__(self, executor: Executor) -> None:
        self.exit_code = 0
        self._executor = executor

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.exit_code:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        is_terminated = number == signal.SIGTERM
        self.exit_code = TERMINATED if is_terminated else INTERRUPTED
        self._executor.drain()
        again = "another SIGTERM stops" if is_terminated else "press Ctrl-C again to stop"
        say(f"Finishing the shards under way; {again} at once.")
