"""Compaction of results folders: the records of a measurement become one file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from robench.core.errors import StoreError
from robench.store.complaints import keeping, reading
from robench.store.packed import decode_pack, encode_pack, extent_of
from robench.store.paths import RECORD_SUFFIX, Paths, kept_files, measurement_folders
from robench.store.publish import publish
from robench.store.reading import read_whole
from robench.store.record_files import pack_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from robench.core.records import Record
    from robench.store.folder import FolderStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Result of a compaction.

    Attributes:
        num_packed: number of measurements that were packed, from ``num_files`` files.
        num_left: number of measurements of several files that were left as they are, since shards are missing before
            the last one, or differ in size.
    """

    num_packed: int
    num_files: int
    num_left: int


def compact_store(store: FolderStore, on_measurement: Callable[[], None] = lambda: None) -> Compacted:
    """Pack the records of each measurement that has several files and no gap; what is read stays the same.

    Files are removed once the pack that replaces them was written and read back. Runs and readers may go on meanwhile.

    Raises:
        StoreError: a file cannot be read or written; what was packed before is whole.
    """
    paths = Paths(store.path)
    with reading(paths.records):
        folders = measurement_folders(paths.records)
    num_packed = num_files = num_left = 0
    for folder in folders:
        on_measurement()
        with reading(folder):
            files = kept_files(folder, RECORD_SUFFIX)
        if len(files) < 2:
            continue
        records = list(store.records_of([folder.name]))
        if extent_of(records) is None:
            num_left += 1
            continue
        _pack(folder, files, records, paths)
        num_packed += 1
        num_files += len(files)
    return Compacted(num_packed=num_packed, num_files=num_files, num_left=num_left)


def _pack(folder: Path, files: Sequence[Path], records: Sequence[Record], paths: Paths) -> None:
    """Write a pack of all records of a measurement, and remove the files that they came from."""
    extent = extent_of(records)
    assert extent is not None  # the caller has looked
    content = encode_pack(records)
    place = paths.pack(folder.name, extent)
    if decode_pack(content) != list(records):
        raise StoreError(f"{folder} was not packed, since its pack would hold other outcomes; report this as a bug")
    with keeping(place):
        # An earlier pack of the same extent stays only if all files beside it are copies of its records.
        if not publish(place, content) and read_whole(place, partial(pack_at, place), None, paths) != list(records):
            raise StoreError(f"{place} holds other outcomes than the files beside it; 'robench store verify' reads it")
        for path in files:
            if path != place:
                # Another compaction may have removed it.
                with suppress(FileNotFoundError):
                    path.unlink()
