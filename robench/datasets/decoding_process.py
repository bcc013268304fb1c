"""The life of a decoding process, apart from decoding.

This module imports nothing heavy, because threads are limited before the libraries that start them are loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def begin() -> None:
    """Prepare a decoding process: it ignores SIGINT, holds to one thread, and ends when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Read when the numerical libraries are loaded, which is after this.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A parent that was killed closes no pool, and its processes would wait for work for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
