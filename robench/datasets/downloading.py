"""Download of a published file: resumed where it was cut, checked by its size and MD5, and renamed when complete."""

import errno
import hashlib
import http.client
import logging
import os
import re
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
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class _CutError(Exception):
    """End of a connection before the end of the file."""


def download(
    published: PublishedFile, folder: Path, *, otherwise: str, on_progress: Callable[[int, int], None]
) -> Path:
    """Download a file into a folder, or resume doing so, and return its path; a complete one is not fetched again.

    Until it is complete and its MD5 right, it is called ``NAME.part``; ``NAME.part.validator`` holds the server's
    validator (RFC 9110), by which a resumed download notices that the file has changed.

    Args:
        published: address, MD5 and size.
        folder: existing folder.
        otherwise: another way to get the file, which ends messages: ``give it with --archive FILE``.
        on_progress: called with the bytes present and all.

    Raises:
        MissingDataError: there is no connection, no such file there, or another one; a wrong file is removed.
        UsageError: there is no space.
        OSError: the folder cannot be written.
    """
    final, part = folder / published.name, folder / f"{published.name}.part"
    if final.is_file():
        if md5_of(final) == published.md5:
            return final
        logging.getLogger("robench.datasets").warning("%s has a wrong MD5 and is removed; it is downloaded anew", final)
        final.unlink()
    for attempt in range(NUM_ATTEMPTS):
        present = _size(part)
        if present >= published.num_bytes:
            break
        if attempt:
            time.sleep(RETRY_SECONDS)
        with suppress(_CutError):
            _fetch(published, part, present, otherwise, on_progress)
    if (present := _size(part)) < published.num_bytes:
        raise MissingDataError(
            f"the download of {published.url} was cut {NUM_ATTEMPTS} times and has {present:,} of"
            f" {published.num_bytes:,} bytes. Run the same command again, which resumes it, or {otherwise}"
        )
    found = md5_of(part)
    _validator(part).unlink(missing_ok=True)
    if found != published.md5:
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


def _fetch(
    published: PublishedFile, part: Path, present: int, otherwise: str, on_progress: Callable[[int, int], None]
) -> None:
    """Fetch what is missing over one connection."""
    headers = {"User-Agent": "robench", "Accept-Encoding": "identity"}
    if present:
        headers["Range"] = f"bytes={present}-"
        if _validator(part).is_file():
            headers["If-Range"] = _validator(part).read_text()
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(published.url, headers=headers), timeout=_TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and present:
            # The part is of another file.
            part.unlink()
            raise _CutError from error
        raise MissingDataError(
            f"cannot download {published.url}: the server answers {error.code} {error.reason}. Run the same command"
            f" again later, or {otherwise}"
        ) from error
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise MissingDataError(
            f"cannot download {published.url}: {reason}. Run the same command again where the network reaches it, or"
            f" {otherwise}"
        ) from error
    except (http.client.HTTPException, OSError) as error:
        raise _CutError from error
    with response:
        start = _start_of(response, published, present, otherwise)
        if not start:
            _keep_validator(response, part)
        _write(response, part, start, published, on_progress)


def _start_of(response: Any, published: PublishedFile, present: int, otherwise: str) -> int:
    """Return the position in the file at which a response begins. Any: urllib declares no type of responses."""
    start, total = 0, response.headers.get("Content-Length")
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != present:
            raise _CutError
        start, total = present, found[2]
    if total is not None and total.isdecimal() and int(total) != published.num_bytes:
        raise MissingDataError(
            f"{published.url} has {int(total):,} bytes, wanted {published.num_bytes:,}: it is not the published file."
            f" Run the same command again later, or {otherwise}"
        )
    return start


def _write(
    response: Any, part: Path, start: int, published: PublishedFile, on_progress: Callable[[int, int], None]
) -> None:
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


def _validator(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _keep_validator(response: Any, part: Path) -> None:
    """Store what names this version of the file: a strong ETag, or else the time of its last change."""
    tag = response.headers.get("ETag", "")
    validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    if validator:
        _validator(part).write_text(validator)
    else:
        _validator(part).unlink(missing_ok=True)
