"""Conversion of operating system errors in a results folder to messages with advice."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from robench.core.errors import StoreError, StoreUnwritableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# EFBIG is caused by a limit on file sizes (ulimit -f).
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Convert an OSError while writing ``path`` to a StoreError."""
    try:
        yield
    except OSError as error:
        raise _full(path, error) if error.errno in _FULL else _unkept(path, error) from error


@contextmanager
def opening(results: Path) -> Iterator[None]:
    """Convert an OSError while testing ``results`` to a StoreUnwritableError, or for a full disk to a StoreError."""
    try:
        yield
    except OSError as error:
        raise _full(results, error) if error.errno in _FULL else _unwritable(results, error) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert an OSError while reading ``path`` to a StoreError."""
    try:
        yield
    except (OSError, MemoryError) as error:
        raise StoreError(
            f"{path} cannot be read: {_reason(error)}. Make it readable or move it out of the results folder,"
            " and run the same command again"
        ) from error


def _full(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"no space for {path}: {_reason(error)}. Everything kept so far is safe;"
        " free space and run the same command again, which measures only what is missing"
    )


def _unkept(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} could not be written: {_reason(error)}. Everything kept so far is safe;"
        " repair the folder, or name another with --results, and run again"
    )


def _unwritable(results: Path, error: OSError) -> StoreUnwritableError:
    where = f" ({error.filename})" if error.filename and str(error.filename) != str(results) else ""
    return StoreUnwritableError(
        f"the results folder {results} cannot be written: {_reason(error)}{where}."
        " Make it writable, or name another folder with --results"
    )


def _reason(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return "it is larger than the memory"
    return error.strerror or str(error) or type(error).__name__
