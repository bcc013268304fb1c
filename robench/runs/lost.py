"""Results that turn out damaged when they are read, after the run has counted them as kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from robench.core.protocols import Store

Measured = TypeVar("Measured")
Read = TypeVar("Read")


def read_after_measuring(
    store: Store,
    measure: Callable[[], Measured],
    read: Callable[[], Read],
    is_stopped: Callable[[Measured], bool] = lambda measured: False,
) -> tuple[Measured, Read]:
    """Measure what a store lacks, read results from it, and do both once more if some turned out damaged.

    A run only lists what is kept (``Store.keys``); damage is found on reading, which sets the file aside, so that the
    second round measures it. A file that is damaged again after that is left to the next run.

    Args:
        store: what is measured into and read from.
        measure: measures what is missing.
        read: reads results, such as for a report.
        is_stopped: whether the user has stopped the measuring; then there is no second round.
    """
    measured = measure()
    lost_before = store.num_lost
    found = read()
    if store.num_lost > lost_before and not is_stopped(measured):
        measured = measure()
        found = read()
    return measured, found
