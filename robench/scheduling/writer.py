"""Thread that stores results, so that no worker waits for a disk."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from robench.core.records import Failure, Record

# Results that wait to be written; they are lost, and measured again, if the run is killed.
MAX_WAITING = 8


class Writer:
    """Thread that passes results to ``store`` in the order in which they came.

    A context manager, whose end waits until everything is stored.

    Args:
        store: stores a result.
        at_once: whether each result is stored before ``put`` returns, by the caller's thread.
    """

    def __init__(self, store: Callable[[Record | Failure], None], *, at_once: bool = False) -> None:
        self._store = store
        self._at_once = at_once
        self._waiting: queue.Queue[Record | Failure | None] = queue.Queue(MAX_WAITING)
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="robench-writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._waiting.put(None)
        self._thread.join()
        # An error of the block is the one to be shown.
        if kind is None:
            self._check()

    def put(self, result: Record | Failure) -> None:
        """Store a result soon.

        Raises:
            StoreError: an earlier result could not be stored; nor is this one.
        """
        self._check()
        if self._at_once:
            self._store(result)
        else:
            self._waiting.put(result)

    def _work(self) -> None:
        while (result := self._waiting.get()) is not None:
            if self._raised is None:
                try:
                    self._store(result)
                except BaseException as error:  # raised again in the thread that puts
                    self._raised = error

    def _check(self) -> None:
        if self._raised is not None:
            raise self._raised
