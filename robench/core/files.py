"""Absolute paths, atomic writes, and safe reading of regular files.

A path given by a user, or found in a user's folder, may lead to a named pipe or a device, which a plain ``open`` would
wait for or read endlessly.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from robench.core.errors import StoreUnwritableError, UsageError


def absolute(path: str | os.PathLike[str], name: str = "the path") -> Path:
    """Return ``path`` as an absolute path, with a leading ``~`` expanded; models may change the current folder.

    ``name`` is its name in messages, such as ``--results``.

    Raises:
        UsageError: the path is empty, cannot name a file, uses an unknown user's home folder, or is relative to a
            deleted folder.
    """
    text = os.fspath(path)
    try:
        is_name = 0 not in os.fsencode(text) and bool(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise UsageError(f"{name} must name a file or folder, got {text!r}")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        user = Path(text).parts[0]
        raise UsageError(
            f"{name} is {text!r}, but {user!r} is not a user's home folder here; write ./{text} for a file of that name"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{name} is {text!r}, relative to a current folder that is gone ({error.strerror}); give an absolute path"
        ) from error


def is_file_name(text: str) -> bool:
    """Return whether ``text`` is the path of a YAML file, by its suffix or a slash, and not a shipped name."""
    return text.endswith((".yaml", ".yml")) or "/" in text


_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


# Files of /proc and the like report size 0.
_SMALL = 1 << 20


class NotRegularError(OSError):
    """Path of a named pipe, a device or a socket; ``strerror`` names the type."""


class TooLargeError(OSError):
    """File larger than its format allows; ``strerror`` gives both sizes."""


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, without waiting and never from a device; follows links.

    Raises:
        NotRegularError: it is a named pipe, a device or a socket.
        IsADirectoryError: it is a folder.
        OSError: it cannot be opened, or its name is invalid.
    """
    try:
        # Before it is opened, because opening alone makes some devices act.
        _check_regular(path, path.stat().st_mode)
        # Without waiting for a writer, should it have become a pipe since.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise OSError(errno.EINVAL, f"it is not a valid file name ({error})", str(path)) from error
    try:
        _check_regular(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def other_content(head: bytes) -> str | None:
    """Return the name of a failed download by its first bytes, such as a web page; None for other content."""
    if not head:
        return "empty"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        return "a web page (HTML or XML), as servers send it in place of a download that needs a login or is gone"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer and not the file that it points to (`git lfs pull` fetches that)"
    return None


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the whole content of a regular file.

    Raises:
        TooLargeError: it has more than ``max_bytes`` bytes.
        OSError: see ``open_regular``.
    """
    with open_regular(path) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        # No more than the file claims to have, since a buffer of the limit's size might not fit into memory.
        content = b"" if num_bytes > max_bytes else file.read(min(max(num_bytes, _SMALL), max_bytes) + 1)
    if max(num_bytes, len(content)) > max_bytes:
        found = max(num_bytes, len(content))
        raise TooLargeError(errno.EFBIG, f"it has {found:,} bytes, at most {max_bytes:,} are read", str(path))
    return content


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new name beside ``path`` to write to; that file then takes its place, unless the block raises.

    Raises:
        OSError: the folder cannot be created, or the file not be renamed; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield beside
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a temporary file beside ``path``, flush it to disk and rename it; readers see the old file or the new one.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    with replacing(path) as beside, beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError while writing a file or folder that the user named to a StoreUnwritableError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise StoreUnwritableError(f"{path} cannot be written: {reason}; choose another file or folder") from error


def _check_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise NotRegularError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
