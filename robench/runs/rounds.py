"""Rounds of a run: a second one measures results that turned out damaged, or that another command moved meanwhile."""

import logging
from collections.abc import Iterator, Sequence
from typing import Protocol

from robench.core.protocols import Store
from robench.core.shard import Shard

logger = logging.getLogger("robench.runs")


class Filling(Protocol):
    """Run, or runs that follow each other, whose results may be gone at the end."""

    def gone(self, store: Store) -> Sequence[Shard]:
        """Return the shards with neither a record nor a failure."""


def rounds(store: Store, prepared: Filling) -> Iterator[None]:
    """Yield once, and a second time if results that were measured or read meanwhile turned out damaged or gone.

    A run only lists stored keys (``Store.keys``); damage is found on reading, which sets the file aside. The second
    round measures it, and shards with neither record nor failure, which another command has moved. A file that is
    damaged again after that is left to the next run; shards that are gone again are named in a warning.
    """
    num_lost = store.num_lost
    yield
    if not prepared.gone(store) and store.num_lost == num_lost:
        return
    yield
    if num_gone := len(prepared.gone(store)):
        logger.warning(
            "%d shard%s that this command has measured %s no longer in the results folder. 'robench store gc --apply'"
            " and 'robench store verify' move results; wait for them, and run the same command again",
            num_gone,
            "s" * (num_gone != 1),
            "are" if num_gone != 1 else "is",
        )
