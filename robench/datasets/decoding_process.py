"""Initialisation of decoding processes.

This module imports nothing heavy, because threads are limited before the libraries that start them are loaded.
"""

from __future__ import annotations

import os
import signal

from robench.core.parent_process import end_with_parent


def begin() -> None:
    """Prepare a decoding process: ignore SIGINT, use one thread, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Read when the numerical libraries are loaded, later than this.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    end_with_parent()
