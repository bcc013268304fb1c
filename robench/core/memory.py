"""Freed memory is kept for the next tensor, where the C library is glibc.

Above 32 MB glibc gets memory from the system for each tensor and gives it back when the tensor is freed, so that the
system has to clear all of its pages again each time (docs/performance.md, "Memory").
"""

import ctypes
import os
import sys
from contextlib import suppress

# Parameters of mallopt (malloc.h), and their values in bytes: smaller tensors are on the heap, and up to this much free
# memory at the heap's end is kept.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1
_FROM_SYSTEM = 2**30
_KEPT = 2**31 - 1
# The user's own settings (mallopt(3), "Environment variables").
_OWN_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")


def keep_freed_memory() -> None:
    """Have this process keep freed memory, until it ends; for processes of robench's own.

    Nothing happens where the environment has settings of glibc's allocator, or without glibc.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _OWN_SETTINGS):
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _FROM_SYSTEM)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
