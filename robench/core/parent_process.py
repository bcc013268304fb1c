"""Processes that end when their parent ends, even if the parent was killed."""

from __future__ import annotations

import os
import signal
import threading
import time

SECONDS_BETWEEN_LOOKS = 1.0


def end_with_parent(*, kills_group: bool = False) -> None:
    """Start a thread that ends this process (with ``kills_group`` its whole process group) once its parent has ended.

    A pipe from the parent is not a reliable signal: other children of the parent, such as one that a model forked, may
    have inherited its other end.
    """
    # Only processes that multiprocessing started come here, and its import leaves an alias of __main__ behind.
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None and parent.pid is not None:
        threading.Thread(target=_watch, args=(parent.pid, kills_group), name="end-with-parent", daemon=True).start()


def prepare_helper() -> None:
    """Prepare a helper process: ignore SIGINT, use one thread, and end with the parent.

    This module imports nothing heavy, because threads are limited before the libraries that start them are loaded.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Read when the numerical libraries are loaded, later than this.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    end_with_parent()


def _watch(parent: int, kills_group: bool) -> None:
    # An orphan gets another parent.
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if kills_group:
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
