"""Progress of a run as a bar on a console, or as lines: shards done, examples per second, time left.

Nothing is printed here: callers give the console, or the function that shows a line.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from robench.core.inert import NOTE_WIDTH, clipped
from robench.core.records import Failure, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn

    from robench.scheduling.measure import Progress


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, such as ``12 s``, ``5 min`` or ``3.4 h``."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


class Pause:
    """Clock between the lines of a display; the last line is always shown."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = -seconds

    def is_over(self, *, is_last: bool) -> bool:
        """Return whether a line may be shown, and begin the next pause if so."""
        if time.monotonic() - self._last < self._seconds and not is_last:
            return False
        self._last = time.monotonic()
        return True


@contextmanager
def bar_on(console: Console, *columns: ProgressColumn) -> Iterator[Bar]:
    """Yield a bar of progress with a description, a count and further columns."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    first = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bar(*first, *columns, console=console, transient=True) as bar:
        yield bar


@contextmanager
def progress_on(console: Console, num_shards: int, show: Callable[[str], None]) -> Iterator[Callable[[Progress], None]]:
    """Yield a callback for the progress of ``run_shards``: a bar, and a line of each failure above it."""
    from rich.progress import TextColumn

    with bar_on(console, TextColumn("shards {task.fields[rate]}")) as bar:
        task, rate = bar.add_task("measuring", total=num_shards, rate=""), _Rate()

        def on_progress(progress: Progress) -> None:
            completed = progress.num_shards - progress.num_left
            bar.update(task, total=progress.num_shards, completed=completed, rate=", ".join(rate.texts(progress)))
            if isinstance(progress.result, Failure):
                show(_failure_text(progress.result))

        yield on_progress


class ProgressLines:
    """Callback for the progress of ``run_shards`` that shows a line now and then, and of each failure."""

    def __init__(self, show: Callable[[str], None], seconds: float) -> None:
        self._show = show
        self._rate = _Rate()
        self._pause = Pause(seconds)

    def __call__(self, progress: Progress) -> None:
        """Show how far a run has come, unless a line was shown a moment ago."""
        state = ", ".join(self._rate.texts(progress))
        if isinstance(progress.result, Failure):
            self._show(_failure_text(progress.result))
        completed = progress.num_shards - progress.num_left
        if self._pause.is_over(is_last=completed == progress.num_shards):
            self._show(f"{completed} of {progress.num_shards} shards {state}".rstrip())


class _Rate:
    def __init__(self) -> None:
        self._started = time.monotonic()
        self._num_examples = 0

    def texts(self, progress: Progress) -> Iterator[str]:
        """Yield the examples per second, and the time left once it is known."""
        if isinstance(progress.result, Record):
            self._num_examples += len(progress.result.outcomes)
        seconds = time.monotonic() - self._started
        if self._num_examples:
            yield f"{self._num_examples / seconds:.0f} examples/s"
        if progress.num_left and progress.seconds_left is not None:
            yield f"about {duration(progress.seconds_left)} left"


def _failure_text(failure: Failure) -> str:
    # 'status --failures' shows the whole of it.
    return clipped(f"failed: {failure.shard.title}: {failure.error}", NOTE_WIDTH)
