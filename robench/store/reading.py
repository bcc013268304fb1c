"""Verified reading of stored files; damaged or misplaced ones are set aside."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from robench.core.errors import StoreError
from robench.core.files import NotRegularError, TooLargeError, read_regular
from robench.store.complaints import reading
from robench.store.damage import set_aside
from robench.store.paths import check_place
from robench.store.seal import DamagedError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from robench.core.shard import ShardHeader
    from robench.store.paths import Paths

Content = TypeVar("Content")


# A record has some hundred bytes an outcome, before they are compressed; a failure is a text.
MAX_BYTES = 1 << 30


def read_whole(
    path: Path,
    decode: Callable[[bytes], Content],
    shard_of: Callable[[Content], ShardHeader] | None,
    paths: Paths,
    *,
    max_bytes: int = MAX_BYTES,
) -> Content | None:
    """Return the content of ``path``, or None if it is gone, or damaged and set aside.

    ``shard_of`` returns the shard of the content, whose place must be ``path``; None for files of no single shard.

    Pipes, devices and files of more than ``max_bytes`` count as damaged: robench writes none.

    Raises:
        StoreError: it cannot be read, or is of a later robench.
    """
    try:
        content = _content(path, max_bytes)
        if content is None:
            return None
        decoded = decode(content)
        if shard_of is not None:
            check_place(path, shard_of(decoded))
    except NewerFormatError as error:
        raise StoreError(
            f"{path} was written by a newer robench: {error}. Update robench, or name another folder with --results"
        ) from error
    except DamagedError as error:
        set_aside(path, paths.damaged(path), error)
        return None
    return decoded


def _content(path: Path, max_bytes: int) -> bytes | None:
    # Another process may have set it aside since it was listed.
    with reading(path), suppress(FileNotFoundError):
        try:
            return read_regular(path, max_bytes)
        except (NotRegularError, TooLargeError) as error:
            raise DamagedError(error.strerror) from error
    return None
