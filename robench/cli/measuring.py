"""A prepared run measured under a progress display, with Ctrl-C doing what it says."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from robench.cli.progress import progress_shown

if TYPE_CHECKING:
    from types import FrameType

    from robench.core.protocols import Executor, Store
    from robench.runs import PreparedRun
    from robench.scheduling import Progress


def measured(prepared: PreparedRun, store: Store) -> tuple[bool, Progress]:
    """Measure what ``store`` lacks, and return whether it was interrupted, and how far it came.

    The first Ctrl-C drains, the second raises KeyboardInterrupt.
    """
    executor = prepared.executor(store)
    interrupts = _Interrupts(executor)
    before = {number: signal.signal(number, interrupts) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with progress_shown(len(prepared.shards)) as on_progress:
            progress = prepared.measure(store, executor, on_progress)
        return interrupts.count > 0, progress
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Interrupts:
    """A signal handler that counts."""

    def __init__(self, executor: Executor) -> None:
        self.count = 0
        self._executor = executor

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        self._executor.drain()
        click.echo("Finishing the shards under way; press Ctrl-C again to stop at once.", err=True)
