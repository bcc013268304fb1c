"""Handling of damaged files: they are set aside, never deleted, with a warning."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from robench.store.seal import DamagedError

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
