"""Progress of functions that measure, on stderr: a bar on a terminal and in notebooks, a line a minute elsewhere."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from robench.core.inert import printable
from robench.scheduling import Listener
from robench.scheduling.display import ProgressLines, progress_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from robench.core.protocols import Executor
    from robench.scheduling import Progress

SECONDS_BETWEEN_LINES = 60.0


class ShownRun(Listener):
    """Watch that passes progress to a function and shows it after a note, unless nothing is left to be measured."""

    def __init__(self, on_progress: Callable[[Progress], None], note: str = "") -> None:
        super().__init__(on_progress)
        self._note = note

    @contextmanager
    def watching(
        self, executor: Executor, num_todo: int, num_shards: int, title: str
    ) -> Iterator[Callable[[Progress], None]]:
        """Yield a callback for the progress of an executor."""
        with super().watching(executor, num_todo, num_shards, title) as passed_on:
            if not num_todo:
                yield passed_on
                return
            if self._note:
                _say(self._note)
            with _shown(num_shards) as show:

                def on_progress(progress: Progress) -> None:
                    show(progress)
                    passed_on(progress)

                yield on_progress


def watch_of(on_progress: Callable[[Progress], None], is_shown: bool, note: str) -> Listener:
    """Return the watch over a run, which shows a note and its progress or does not."""
    return ShownRun(on_progress, note) if is_shown else Listener(on_progress)


@contextmanager
def _shown(num_shards: int) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter or (console.is_terminal and not os.environ.get("CI")):
        with progress_on(console, num_shards, _say) as on_progress:
            yield on_progress
    else:
        yield ProgressLines(_say, SECONDS_BETWEEN_LINES)


def _say(line: str) -> None:
    # Without a stream, or with a closed one, the line is lost and the run goes on.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()
