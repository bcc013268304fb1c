"""Paths that mean one place for a whole run, and files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from robench.core.errors import UsageError


def absolute(path: str | os.PathLike[str], name: str = "the path") -> Path:
    """Return the absolute path that ``path`` means now, its leading ``~`` expanded: models may change the folder later.

    ``name`` is what messages call it, such as ``--results``.

    Raises:
        UsageError: it is empty or can name no file, is of no user's home folder, or relative to a folder that is gone.
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
            f"{name} is {text!r}, but {user!r} is no user's home folder here; write ./{text} for a file of that name"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{name} is {text!r}, relative to a current folder that is gone ({error.strerror}); name it in full"
        ) from error


def is_file_name(text: str) -> bool:
    """Whether ``text`` means a YAML file and no shipped name: it ends in .yaml or .yml, or has a slash."""
    return text.endswith((".yaml", ".yml")) or "/" in text


def write_whole(path: Path, content: bytes) -> None:
    """Write beside ``path``, flush to disk, then rename; readers see the old file or the new one, never a part.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
