"""Whole measurements that are moved aside in a results folder, where no reader looks; nothing is deleted."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING

from robench.store.complaints import keeping
from robench.store.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from robench.store.folder import FolderStore

UNUSED = "unused"


def move_aside(store: FolderStore, measurement_keys: Iterable[str]) -> list[Path]:
    """Move records, failures and adversarial examples of measurements to the folder ``unused``; return the new folders.

    Each folder moves as a whole. To undo it, move the folders back.

    Raises:
        StoreError: one could not be moved; it is then where it was.
    """
    paths, moved = Paths(store.path), []
    for key in measurement_keys:
        for folder in (paths.records, paths.failures, paths.adversarial):
            source = folder / key
            with keeping(source), suppress(FileNotFoundError):
                moved.append(_moved(source, store.path / UNUSED / folder.name))
    return moved


def _moved(source: Path, target: Path) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    # A measurement may have been moved aside before, and measured again.
    names = itertools.chain([source.name], (f"{source.name}-{number}" for number in itertools.count(1)))
    place = next(place for name in names if not (place := target / name).exists())
    return source.rename(place)
