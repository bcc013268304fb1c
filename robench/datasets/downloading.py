"""Download of a published file: resumed where it was cut, checked by its size and MD5, and renamed when complete."""

import errno
import hashlib
import http.client
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from robench.core.errors import MissingDataError, UsageError
from robench.core.files import open_regular
from robench.datasets.cifar import PublishedFile

_TIMEOUT_SECONDS: Final = 30.0
_CHUNK_BYTES: Final = 1 << 18
# Connections of one call; each resumes where the one before was cut.
NUM_ATTEMPTS: Final = 5
RETRY_SECONDS = 1.0
FULL_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class _CutError(Exception):
    """End of a connection before the end of the file."""


def download(
    published: PublishedFile, folder: Path, *, otherwise: str, on_progress: Callable[[int, int], None]
) -> Path:
    """Download a file into an existing folder, or resume doing so, and return its path.

    A complete file is not fetched again. Until its MD5 is right, it is called ``NAME.part``. ``otherwise`` is another
    way to get it, which ends messages; ``on_progress`` is called with the bytes present and all.
    """
    final, part = folder / published.name, folder / f"{published.name}.part"
    if final.is_file():
        if md5_of(final) == published.md5:
            return final
        logging.getLogger("robench.datasets").warning("%s has a wrong MD5 and is removed; it is downloaded anew", final)
        final.unlink()
    for attempt in range(NUM_ATTEMPTS):
        if _size(part) >= published.num_bytes:
            break
        if attempt:
            time.sleep(RETRY_SECONDS)
        with suppress(_CutError):
            _fetch(published, part, otherwise, on_progress)
    if (present := _size(part)) < published.num_bytes:
        raise MissingDataError(
            f"the download of {published.url} was cut {NUM_ATTEMPTS} times and has {present:,} of"
            f" {published.num_bytes:,} bytes. Run the same command again, which resumes it, or {otherwise}"
        )
    if (found := md5_of(part)) != published.md5:
        part.unlink()
        raise MissingDataError(
            f"{published.url} is not the published file: its MD5 is {found}, wanted {published.md5}. It was removed;"
            f" run the same command again, or {otherwise}"
        )
    part.replace(final)
    return final


def md5_of(path: Path) -> str:
    """Return the MD5 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _fetch(published: PublishedFile, part: Path, otherwise: str, on_progress: Callable[[int, int], None]) -> None:
    """Fetch what is missing over one connection."""
    present = _size(part)
    headers = {"User-Agent": "robench", "Accept-Encoding": "identity"}
    if present:
        headers["Range"] = f"bytes={present}-"
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(published.url, headers=headers), timeout=_TIMEOUT_SECONDS
        )
    except urllib.error.URLError as error:
        status = f"the server answers {error.code} {error.reason}" if isinstance(error, urllib.error.HTTPError) else ""
        reason = status or getattr(error.reason, "strerror", None) or error.reason
        raise MissingDataError(
            f"cannot download {published.url}: {reason}. Run the same command again later, where the network reaches"
            f" it, or {otherwise}"
        ) from error
    except (http.client.HTTPException, OSError) as error:
        raise _CutError from error
    with response:
        # A server without ranges sends the whole file.
        start = present if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
        total = start + int(response.headers.get("Content-Length") or published.num_bytes - start)
        if total != published.num_bytes:
            raise MissingDataError(
                f"{published.url} has {total:,} bytes, wanted {published.num_bytes:,}: it is not the published file."
                f" Run the same command again later, or {otherwise}"
            )
        _write(response, part, start, published, on_progress)


def _write(
    response: Any, part: Path, start: int, published: PublishedFile, on_progress: Callable[[int, int], None]
) -> None:
    """Write a response from a position in the file on. Any: urllib declares no type of responses."""
    present = start
    try:
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            while chunk := _chunk(response, min(_CHUNK_BYTES, published.num_bytes + 1 - present)):
                file.write(chunk)
                present += len(chunk)
                on_progress(min(present, published.num_bytes), published.num_bytes)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        raise UsageError(
            f"no space for {part}: {published.num_bytes:,} bytes are needed in {part.parent}. Make room and run the"
            " same command again, which resumes the download"
        ) from error


def _chunk(response: Any, num_bytes: int) -> bytes:
    try:
        chunk: bytes = response.read(num_bytes)
    except (http.client.HTTPException, OSError) as error:
        raise _CutError from error
    return chunk
