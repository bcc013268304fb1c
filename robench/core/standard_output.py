"""Redirection of standard output: output of third-party code goes to stderr, so that stdout is robench's alone.

Python's ``sys.stdout`` and descriptor 1 are both redirected, because C libraries and child processes use the
descriptor. Descriptors 1 and 2 and the streams are restored exactly, even if they were closed in between.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import os
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from types import TracebackType
from typing import TextIO

_C_LIBRARY = ctypes.CDLL(None)
STDOUT, STDERR = 1, 2
# Copies lie above the numbers that a process expects for its standard streams; one may be closed.
FIRST_COPY = 10


class StdoutDiverted:
    """Context manager that redirects all output to stderr.

    Contexts may be nested and entered by several threads: the first to begin redirects, the last to end restores. Each
    of the others repairs the redirection, because the code in between may have closed a stream or a descriptor.
    """

    _lock = threading.RLock()
    _depth = 0
    _kept: _Streams | None = None

    def __enter__(self) -> None:
        cls = type(self)
        with cls._lock:
            if cls._depth == 0:
                cls._kept = _Streams()
            elif cls._kept is not None:
                cls._kept.divert()
            cls._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cls = type(self)
        with cls._lock:
            cls._depth -= 1
            if cls._depth == 0 and cls._kept is not None:
                kept, cls._kept = cls._kept, None
                kept.restore()

    @classmethod
    def forget(cls) -> None:
        """Close the copies of the streams in a forked child; otherwise their reader would wait for the child to end."""
        if cls._kept is not None:
            cls._kept.close()


class _Streams:
    """Original standard streams, saved during the redirection."""

    def __init__(self) -> None:
        self._objects: tuple[TextIO | None, TextIO | None] = (sys.stdout, sys.stderr)
        _flush(sys.stdout, sys.__stdout__, sys.stderr)
        self._copies = {number: _copy(number) for number in (STDOUT, STDERR)}
        # Streams of its own: a model that closes them closes nothing else.
        self._own: tuple[TextIO | None, TextIO | None] = (None, None)
        self.divert()

    def divert(self) -> None:
        """Redirect both descriptors and both streams to stderr, again if a model has closed or replaced them."""
        if not self._copies:
            return  # a forked child, see ``forget``
        copy = self._copies[STDERR]
        if copy is None:
            # stderr is closed: nobody reads it.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, STDERR)
            if nowhere != STDERR:
                os.close(nowhere)
        else:
            os.dup2(copy, STDERR)
        os.dup2(STDERR, STDOUT)
        stdout, stderr = (_stream_to_stderr() if _is_closed(each) else each for each in self._own)
        self._own = sys.stdout, sys.stderr = stdout, stderr

    def restore(self) -> None:
        """Flush buffered output and restore the streams."""
        # Output buffered by the replaced streams and C libraries belongs to stderr, too.
        _flush(sys.stdout, sys.stderr, *self._objects, sys.__stdout__)
        sys.stdout, sys.stderr = self._objects  # None where it was closed at the start
        for number, copy in self._copies.items():
            if copy is None:
                with suppress(OSError):
                    os.close(number)
            else:
                os.dup2(copy, number)
        self.close()

    def close(self) -> None:
        """Close the copies of the descriptors."""
        for copy in self._copies.values():
            if copy is not None:
                with suppress(OSError):
                    os.close(copy)
        self._copies = {}


def divert_for_good() -> None:
    """Redirect stdout to stderr for the rest of this process, as in a worker."""
    StdoutDiverted().__enter__()


def divert_at_exit() -> None:
    """Redirect stdout to stderr when the interpreter exits, before the exit functions registered so far."""
    atexit.register(divert_for_good)


def _copy(number: int) -> int | None:
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, FIRST_COPY)
    except OSError:
        return None


def _stream_to_stderr() -> TextIO:
    # Closing it leaves the descriptor open, and later writes go to wherever stderr then leads.
    return TextIOWrapper(
        os.fdopen(STDERR, "wb", buffering=0, closefd=False),
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )


def _is_closed(stream: TextIO | None) -> bool:
    try:
        return stream is None or stream.closed
    except ValueError:  # it was detached from its buffer
        return True


def _flush(*streams: TextIO | None) -> None:
    for stream in streams:
        # A stream may be anything by now, closed or replaced; a failed write must not end a run.
        with suppress(Exception):
            if stream is not None:
                stream.flush()
    _C_LIBRARY.fflush(None)


os.register_at_fork(after_in_child=StdoutDiverted.forget)
