"""Files that are written once, whole and under a seal, and the errors of the system while they are written or read.

A seal is the SHA-256 of a file's bytes, stored inside. Parquet checks its pages, but neither the page headers nor the
footer: a flipped bit there could turn one seed or number of rows into another unnoticed, and a damaged footer would be
handed to a parser of native code. So a file is parsed only if its seal is valid.

The last ``"format":N,"sha256":"..."}`` of a file is its seal; the digest is taken with its own 64 digits as zeros.
Every later format keeps this ending, so that an older robench can distinguish a newer file from a damaged one.
"""

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from robench.core.errors import StoreError, StoreUnwritableError
from robench.core.files import write_whole

Content = TypeVar("Content")

PART_SUFFIX = ".part"
# Format 1: records without the columns model, dataset, condition and budget; read, no longer written.
FORMAT_VERSION = 2
# Packs came later (``packed``); a robench that does not know them says so.
PACK_FORMAT = 3
LATEST_FORMAT = 3
_READABLE = range(1, LATEST_FORMAT + 1)

_BLANK = b"0" * 64
_SEAL = re.compile(rb'"format":(?P<version>\d{1,9}),"sha256":"(?P<digest>[0-9a-f]{64})"\}')
_BEGINNING = b'"format":'


class DamagedError(Exception):
    """Error for a file that changed after it was written; the message is the reason, as part of a sentence."""


class NewerFormatError(Exception):
    """Error for an intact file in a format that only a later robench reads; the message names the format."""


def with_blank_seal(text: str, version: int | None = None) -> str:
    """Return the JSON object ``text``, which has at least one member, with a blank seal as its last member.

    ``version`` replaces the current format.
    """
    return f'{text[:-1]},"format":{FORMAT_VERSION if version is None else version},"sha256":"{_BLANK.decode()}"}}'


def seal(content: bytes) -> bytes:
    """Return ``content`` with its blank seal filled in; the length is unchanged."""
    return _with_digest(content, _find(content), hashlib.sha256(content).hexdigest().encode())


def check_seal(content: bytes) -> None:
    """Check that every byte is as written.

    Raises:
        DamagedError: a byte differs, or the file was never sealed.
        NewerFormatError: the file was written by a later robench.
    """
    found = _find(content)
    if hashlib.sha256(_with_digest(content, found, _BLANK)).hexdigest().encode() != found["digest"]:
        raise DamagedError("its bytes changed after they were written")
    version = int(found["version"])
    if version > LATEST_FORMAT:
        raise NewerFormatError(f"it has format {version}, and this robench reads formats up to {LATEST_FORMAT}")
    if version not in _READABLE:
        raise DamagedError(f"it has format {version}, which never was")


def _find(content: bytes) -> re.Match[bytes]:
    if not content:
        raise DamagedError("it is empty")
    # Texts of users precede the seal and are quoted; the name of the writing library, which follows it, has no such
    # text.
    start = content.rfind(_BEGINNING)
    found = _SEAL.match(content, start) if start >= 0 else None
    if found is None:
        raise DamagedError("it is cut off, or was not written by robench")
    return found


def _with_digest(content: bytes, found: re.Match[bytes], digest: bytes) -> bytes:
    start, stop = found.span("digest")
    return content[:start] + digest + content[stop:]


_ATTEMPTS = 3
# Errors of file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def candidate(path: Path) -> Path:
    """Return a temporary name beside ``path``, unique to this writer."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PART_SUFFIX}")


def publish(path: Path, content: bytes) -> bool:
    """Write ``content`` to ``path`` unless a file exists already; return whether it was written.

    On file systems without hard links, concurrent writers may replace each other; the result is always one of their
    complete files.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    return persistently(partial(_published, path, content))


def persistently(write: Callable[[], Content]) -> Content:
    """Apply ``write``, again while 'robench store gc --apply' moves its folder away."""
    for _ in range(_ATTEMPTS - 1):
        # mkdir with exist_ok raises the second if the folder goes after it was found there.
        with suppress(FileNotFoundError, FileExistsError):
            return write()
    return write()


def _published(path: Path, content: bytes) -> bool:
    if path.exists():
        return False
    beside = candidate(path)
    write_whole(beside, content)
    try:
        # A rename would replace another writer's file; a link refuses.
        path.hardlink_to(beside)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return True


# EFBIG is caused by a limit on file sizes (ulimit -f).
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def keeping(path: Path) -> Iterator[None]:
    """Convert an OSError while writing ``path`` to a StoreError."""
    try:
        yield
    except OSError as error:
        gone = "; if 'robench store gc --apply' is moving folders, wait for it" if error.errno == errno.ENOENT else ""
        raise _full(path, error) or StoreError(
            f"{path} could not be written: {_reason(error)}{gone}. Everything kept so far is safe;"
            " repair the folder, or name another with --results, and run again"
        ) from error


@contextmanager
def opening(results: Path) -> Iterator[None]:
    """Convert an OSError while testing ``results`` to a StoreUnwritableError, or for a full disk to a StoreError."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename and str(error.filename) != str(results) else ""
        raise _full(results, error) or StoreUnwritableError(
            f"the results folder {results} cannot be written: {_reason(error)}{where}."
            " Make it writable, or name another folder with --results"
        ) from error


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


def _full(path: Path, error: OSError) -> StoreError | None:
    if error.errno not in _FULL:
        return None
    return StoreError(
        f"no space for {path}: {_reason(error)}. Everything kept so far is safe;"
        " free space and run the same command again, which measures only what is missing"
    )


def _reason(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return "it is larger than the memory"
    return error.strerror or str(error) or type(error).__name__
