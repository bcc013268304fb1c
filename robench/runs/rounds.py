"""Rounds of a run, and who watches them.

A second round measures results that turned out damaged, or that another command moved meanwhile.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from robench.core.protocols import Executor, Store
from robench.core.shard import Shard
from robench.scheduling import Progress

logger = logging.getLogger("robench.runs")


class Watch(Protocol):
    """Watch over a run, which is told of its progress and may stop it.

    Attributes:
        filled: latest progress of each part of the run, by title.
    """

    filled: dict[str, Progress]

    @property
    def is_stopped(self) -> bool:
        """Return whether nothing further may begin."""

    def watching(
        self, executor: Executor, num_todo: int, num_shards: int, title: str
    ) -> AbstractContextManager[Callable[[Progress], None]]:
        """Return a context of a callback for the progress of an executor, which is to measure ``num_todo`` shards."""


class Listener:
    """Watch that passes progress to a function, and never stops."""

    is_stopped = False

    def __init__(self, on_progress: Callable[[Progress], None] = lambda progress: None) -> None:
        self.filled: dict[str, Progress] = {}
        self._on_progress = on_progress

    def watching(
        self, executor: Executor, num_todo: int, num_shards: int, title: str
    ) -> AbstractContextManager[Callable[[Progress], None]]:
        """Return the function, as a context."""
        return nullcontext(self._on_progress)


class Filling(Protocol):
    """Run, or runs that follow each other, whose results may be gone at the end."""

    def fill(self, store: Store, watch: Watch) -> object:
        """Measure what the store lacks."""

    def gone(self, store: Store) -> Sequence[Shard]:
        """Return the shards with neither a record nor a failure."""


R = TypeVar("R", bound=Filling)
T = TypeVar("T")


def in_rounds(run: R, store: Store, read: Callable[[R, Store], T], watch: Watch) -> T:
    """Measure what ``store`` lacks and read the results, and again if some turned out damaged or gone meanwhile.

    A run only lists stored keys (``Store.keys``); damage is found on reading, which sets the file aside. The second
    round measures it, and shards with neither record nor failure, which another command has moved. A file that is
    damaged again after that is left to the next run; shards that are gone again are named in a warning.
    """
    num_lost = store.num_lost
    run.fill(store, watch)
    found = read(run, store)
    if watch.is_stopped or (not run.gone(store) and store.num_lost == num_lost):
        return found
    run.fill(store, watch)
    found = read(run, store)
    if (num_gone := len(run.gone(store))) and not watch.is_stopped:
        logger.warning(
            "%d shard%s that this command has measured %s no longer in the results folder. 'robench store gc --apply'"
            " and 'robench store verify' move results; wait for them, and run the same command again",
            num_gone,
            "s" * (num_gone != 1),
            "are" if num_gone != 1 else "is",
        )
    return found
