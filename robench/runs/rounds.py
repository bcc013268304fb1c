"""Rounds of a run: a second one measures results that turned out damaged, or that another command moved meanwhile."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from robench.core.protocols import Store
from robench.core.shard import Shard
from robench.scheduling import Watch

logger = logging.getLogger("robench.runs")


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
