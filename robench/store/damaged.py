"""Files that are damaged, out of place, or disagree: found when read, set aside and reported, never deleted."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from robench.core.errors import StoreError
from robench.core.files import NotRegularError, TooLargeError, read_regular
from robench.core.records import Record
from robench.core.shard import ShardHeader
from robench.store.paths import MANIFEST_NAME, Paths
from robench.store.sealed import DamagedError, NewerFormatError, reading

Content = TypeVar("Content")

# A record has some hundred bytes an outcome, before they are compressed; a failure is a text.
MAX_BYTES = 1 << 30


def read_whole(
    path: Path,
    decode: Callable[[bytes], Content],
    paths: Paths,
    *,
    max_bytes: int = MAX_BYTES,
    on_gone: Callable[[], None] = lambda: None,
) -> Content | None:
    """Return the content of ``path``, or None if it is gone, or damaged and set aside.

    Pipes, devices and files of more than ``max_bytes`` count as damaged: robench writes none. ``on_gone`` is called if
    there is no file, such as after another command has moved it.

    Raises:
        StoreError: it cannot be read, or is of a later robench.
    """
    try:
        content = _content(path, max_bytes)
        if content is None:
            on_gone()
            return None
        return decode(content)
    except NewerFormatError as error:
        raise StoreError(
            f"{path} was written by a newer robench: {error}. Update robench, or name another folder with --results"
        ) from error
    except DamagedError as error:
        set_aside(path, paths.damaged(path), error)
        return None


def check_place(path: Path, shard: ShardHeader) -> None:
    """Check that the file of ``shard`` is in its place; raises DamagedError if it was copied or renamed.

    A manifest is of its whole measurement: its folder counts alone.
    """
    stem = path.stem if path.name == MANIFEST_NAME else shard.key
    if (path.parent.name, path.stem) != (shard.measurement_key, stem):
        raise DamagedError(f"it is of shard {shard.key} of measurement {shard.measurement_key}, so it was moved here")


def _content(path: Path, max_bytes: int) -> bytes | None:
    # Another process may have set it aside since it was listed.
    with reading(path), suppress(FileNotFoundError):
        try:
            return read_regular(path, max_bytes)
        except (NotRegularError, TooLargeError) as error:
            raise DamagedError(error.strerror) from error
    return None


logger = logging.getLogger("robench.store")

_WHAT_NEXT = "Its shard counts as not measured, and the next run measures it again"


def set_aside(path: Path, places: Iterator[Path], damage: DamagedError) -> None:
    """Move a damaged file to the first free one of ``places``, and warn; if that fails, only warn."""
    try:
        aside = _move(path, places)
    except FileNotFoundError:
        # Another process has already set the file aside.
        return
    except OSError as error:
        reason = error.strerror or str(error)
        logger.warning(
            "%s is damaged: %s. It cannot be set aside (%s) and is ignored. %s", path, damage, reason, _WHAT_NEXT
        )
    else:
        logger.warning("%s is damaged: %s. It was set aside as %s. %s", path, damage, aside, _WHAT_NEXT)


def _move(path: Path, places: Iterator[Path]) -> Path:
    place = _reserve(places)
    try:
        path.replace(place)
    except OSError:
        place.unlink(missing_ok=True)
        raise
    return place


def _reserve(places: Iterator[Path]) -> Path:
    while True:
        place = next(places)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Created here, so that no other process takes the same name and is overwritten.
        with suppress(FileExistsError), place.open("xb"):
            return place


def warn_if_other_outcomes(kept: Record, repeated: Record) -> None:
    """Warn if a shard's second measurement ``repeated`` differs from the ``kept`` one; NaN equals NaN."""
    if kept.outcomes == repeated.outcomes:
        return
    pairs = list(zip_longest(kept.outcomes, repeated.outcomes))
    num_different = sum(repr(first) != repr(second) for first, second in pairs)
    if num_different:
        logger.warning(
            "%s gave other outcomes when it was measured again: on %s (%s), kept, and on %s (%s), dropped,"
            " %d of %d examples differ. The numbers are not reproducible; the first stays (shard %s)",
            *(kept.shard.title, kept.provenance.device, kept.provenance.finished_at),
            *(repeated.provenance.device, repeated.provenance.finished_at, num_different, len(pairs), kept.shard.key),
        )
