"""Child processes: they do not import the user's script, and end when their parent ends, even if it was killed.

A process started with ``spawn`` imports the script, and without ``if __name__ == "__main__":`` would run all of it once
more. robench's processes need of it at most classes that were defined there. This module imports nothing heavy, because
threads are limited before the libraries that start them are loaded.
"""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

SECONDS_BETWEEN_LOOKS = 1.0
_MAIN = "__main__"


def refers_to_script(values: Iterable[object]) -> bool:
    """Return whether another process needs the script to unpickle some values; also True if they contain its name."""
    return any(_MAIN.encode() in pickle.dumps(value) for value in values)


@contextmanager
def without_script() -> Iterator[None]:
    """Start processes inside that do not import the script."""
    script = sys.modules[_MAIN]
    # multiprocessing reads there where the script is.
    sys.modules[_MAIN] = ModuleType(_MAIN)
    try:
        yield
    finally:
        sys.modules[_MAIN] = script


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
    """Prepare a helper process: ignore SIGINT, use one thread, and end with the parent."""
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
