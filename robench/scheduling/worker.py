"""What runs in a worker process: shards come in by a pipe, results go out by it."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from robench.core.records import Failure, Record
    from robench.core.shard import Shard

# Read by numerical libraries when they are first imported: one thread a worker, see evaluation/arithmetic.py.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def work(pipe: Connection, evaluator: Callable[[Shard], Record | Failure]) -> None:
    """Measure what comes until None comes or the parent is gone."""
    # Warnings about data were given when the run was prepared.
    logging.getLogger("robench").setLevel(logging.ERROR)
    try:
        while (shard := pipe.recv()) is not None:
            pipe.send(evaluator(shard))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # Killed parents close the pipe: leave at once, before libraries' own threads hold the exit up.
        os._exit(1)
