"""The life of a decoding process, apart from decoding.

This module imports nothing heavy, because threads are limited before the libraries that start them are loaded.
"""

from __future__ import annotations

import os
import signal

from robench.core.parent_process import end_with_parent


def begin() -> None:
    """Prepare a decoding process: it ignores SIGINT, holds to one thread, and ends when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Read when the numerical libraries are loaded, which is after this.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    end_with_parent()
