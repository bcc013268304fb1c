"""Upkeep of whole results folders: verifying every file, merging and compacting folders, and moving measurements aside.

Merging copies files from folder to folder byte for byte, after they have been verified; nothing is encoded again.
"""

import errno
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from robench.core.errors import StoreError, UsageError
from robench.core.files import read_regular
from robench.core.records import Record
from robench.core.shard import ShardHeader
from robench.store.adversarial import MAX_BYTES as MAX_BYTES_OF_EXAMPLES
from robench.store.adversarial import examples_at
from robench.store.consistency import DataClaims, headers_outvoted
from robench.store.damaged import MAX_BYTES, read_whole
from robench.store.envelope import decode_failure, decode_manifest
from robench.store.folder import FolderStore
from robench.store.packed import decode_pack, encode_pack, extent_of, pack_at
from robench.store.parquet import decode_record, encode_record
from robench.store.paths import (
    ADVERSARIAL_SUFFIX,
    FAILURE_SUFFIX,
    MANIFEST_NAME,
    RECORD_SUFFIX,
    Paths,
    extent_named,
    kept_files,
    measurement_folders,
)
from robench.store.sealed import DamagedError, NewerFormatError, keeping, publish, reading

RECORDS, PACKS, MANIFESTS, FAILURES, ADVERSARIAL = "records", "packs", "manifests", "failures", "adversarial"
# Manifests before records, as a run writes them, so that no record is ever without one.
KINDS = (MANIFESTS, RECORDS, PACKS, FAILURES, ADVERSARIAL)
# A file that replaces one that is gone may go as well.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """File of a results folder that has been read whole.

    Attributes:
        kind: one of ``KINDS``.
        content: its bytes; None if they changed after that: then the file was set aside.
        value: the decoded record, manifest, failure, examples, or list of records of a pack.
    """

    kind: str
    path: Path
    content: bytes | None
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result of a verification."""

    counts: dict[str, int]
    damaged: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Result of merging.

    Attributes:
        copied, known: number of files by kind that were copied, and of files that the target had already. A
            pack is copied record by record if the target has some of its shards.
        conflicts: titles of shards whose outcomes differ between the folders; the target's stay, or the first copied.
        damaged: files of the sources that were set aside there.
    """

    copied: dict[str, int]
    known: dict[str, int]
    conflicts: tuple[str, ...]
    damaged: tuple[Path, ...]


def verify_store(store: FolderStore, on_file: Callable[[], None] = lambda: None) -> Verified:
    """Read every file of a results folder, check its seal, and compare the records with each other.

    Damaged and contradictory files are set aside with a warning.
    """
    kinds: dict[Path, str] = {}
    damaged = []
    claims = DataClaims()
    headers: dict[Path, dict[Path, list[ShardHeader]]] = {}
    for file in _files(store):
        on_file()
        if file.content is None:
            damaged.append(file.path)
            continue
        kinds[file.path] = file.kind
        if file.kind in (MANIFESTS, RECORDS, PACKS):
            found = file.value if file.kind == PACKS else [file.value]
            headers.setdefault(file.path.parent, {})[file.path] = [each.shard for each in found]
            for record in found if file.kind != MANIFESTS else ():
                claims.add(file.path, record)
    lost = claims.outvoted()
    for folder, of_folder in headers.items():
        lost |= headers_outvoted(of_folder, store.paths.manifest(folder.name))
    for path, reason in lost.items():
        store.refuse(path, reason)
        damaged.append(path)
        del kinds[path]
    counts = {kind: sum(each == kind for each in kinds.values()) for kind in KINDS}
    return Verified(counts=counts, damaged=tuple(damaged))


def check_exists(store: FolderStore) -> None:
    """Refuse a results folder that does not exist, by a UsageError."""
    with reading(store.path):
        if not store.path.is_dir():
            raise UsageError(f"there is no results folder {store.path}; name another")


def merge_stores(
    target: FolderStore, sources: Sequence[FolderStore], on_file: Callable[[], None] = lambda: None
) -> Merged:
    """Copy the results of other folders into one, whose own stay.

    Failures are copied only if no folder has a record of their shard.

    Raises:
        UsageError: a source is the target, or there is no such folder.
        StoreError: a file cannot be read or written; files copied before are whole.
    """
    for source in sources:
        check_exists(source)
        with reading(target.path):
            if source.path.resolve() == target.path.resolve():
                raise UsageError(f"{source.path} cannot be merged into itself; name the other folders")
    target.check_writable()
    copied, known = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    conflicts, damaged = [], []
    # Every record before the first failure, which one of them may make void.
    for kinds in ((MANIFESTS, RECORDS, PACKS, ADVERSARIAL), (FAILURES,)):
        for source in sources:
            for file in _files(source, kinds):
                on_file()
                if file.content is None:
                    damaged.append(file.path)
                    continue
                has_any = file.kind == PACKS and any(
                    target.has(record.shard.measurement_key, record.shard.key) for record in file.value
                )
                for each in _records_of(file) if has_any else [file]:
                    is_new = _copied(each, source, target)
                    (copied if is_new else known)[each.kind] += 1
                    conflicts += [] if is_new else _conflicts(each, target)
    return Merged(copied=copied, known=known, conflicts=tuple(dict.fromkeys(conflicts)), damaged=tuple(damaged))


def _records_of(file: KeptFile) -> list[KeptFile]:
    """Return each record of a pack as a file of its own, beside the pack."""
    return [
        KeptFile(
            kind=RECORDS,
            path=file.path.with_name(f"{record.shard.key}{RECORD_SUFFIX}"),
            content=encode_record(record),
            value=record,
        )
        for record in file.value
    ]


def _copied(file: KeptFile, source: FolderStore, target: FolderStore) -> bool:
    """Return whether a file was copied: it was not, if the target has one, or of its shard a record."""
    assert file.content is not None
    place = target.path / file.path.relative_to(source.path)
    with keeping(place):
        if file.kind in (FAILURES, RECORDS):
            shard = file.value.shard
            if target.has(shard.measurement_key, shard.key):
                return False
        is_new = publish(place, file.content)
        for record in {RECORDS: [file.value], PACKS: file.value}.get(file.kind, []):
            target.paths.failure(record.shard).unlink(missing_ok=True)
        return is_new


def _conflicts(file: KeptFile, target: FolderStore) -> list[str]:
    """Return the title of a record whose outcomes differ in the target."""
    if file.kind != RECORDS:
        return []
    kept = target.record(file.value.shard)
    return [file.value.shard.title] if kept is not None and kept.outcomes != file.value.outcomes else []


def _files(store: FolderStore, kinds: Sequence[str] = KINDS) -> Iterator[KeptFile]:
    """Yield every file of some kinds, measurement by measurement, read and verified one at a time."""
    paths = store.paths
    folders = dict.fromkeys((MANIFESTS, RECORDS, PACKS), paths.records)
    folders |= {FAILURES: paths.failures, ADVERSARIAL: paths.adversarial}
    for top in dict.fromkeys(folders[kind] for kind in kinds):
        for folder in measurement_folders(top):
            for kind in kinds:
                if folders[kind] == top:
                    yield from _read_all(kind, folder, store)


def _read_all(kind: str, folder: Path, store: FolderStore) -> Iterator[KeptFile]:
    """Yield the files of a kind in a folder, and files by which another command replaces some meanwhile."""
    seen: set[Path] = set()
    gone: list[Path] = []
    for _ in range(_ATTEMPTS):
        for path in _listed(kind, folder):
            if path not in seen:
                seen.add(path)
                file = _read(kind, path, store, gone)
                if path not in gone:
                    yield file
        if not gone:
            break


def _listed(kind: str, folder: Path) -> list[Path]:
    if kind == MANIFESTS:
        manifest = folder / MANIFEST_NAME
        with reading(folder):
            return [manifest] if manifest.exists() else []
    files = kept_files(folder, _SUFFIXES[kind])
    if kind in (RECORDS, PACKS):
        return [path for path in files if (extent_named(path.stem) is not None) == (kind == PACKS)]
    return files


def _read(kind: str, path: Path, store: FolderStore, gone: list[Path]) -> KeptFile:
    """Return a file that has been read whole; if another command has moved it away, its path is added to ``gone``."""
    decoders: dict[str, Callable[[bytes], Any]] = {
        RECORDS: store.checked(path, decode_record),
        PACKS: store.checked(path, partial(pack_at, path)),
        MANIFESTS: store.checked(path, decode_manifest),
        FAILURES: store.checked(path, decode_failure),
        ADVERSARIAL: partial(examples_at, path),
    }

    def decode(content: bytes) -> tuple[bytes, Any]:
        return content, decoders[kind](content)

    max_bytes = MAX_BYTES_OF_EXAMPLES if kind == ADVERSARIAL else MAX_BYTES
    found = read_whole(path, decode, store.paths, max_bytes=max_bytes, on_gone=partial(gone.append, path))
    if found is None:
        return KeptFile(kind=kind, path=path, content=None)
    return KeptFile(kind=kind, path=path, content=found[0], value=found[1])


_SUFFIXES = {RECORDS: RECORD_SUFFIX, PACKS: RECORD_SUFFIX, FAILURES: FAILURE_SUFFIX, ADVERSARIAL: ADVERSARIAL_SUFFIX}


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
    """Pack the records of each measurement that has several files and no gap; reads are unchanged.

    Files are removed once the pack that replaces them was written and read back. Runs and readers may go on meanwhile.

    Raises:
        StoreError: a file cannot be read or written; measurements packed before are whole.
    """
    paths = store.paths
    num_packed = num_files = num_left = 0
    for folder in measurement_folders(paths.records):
        on_measurement()
        files = kept_files(folder, RECORD_SUFFIX)
        if len(files) < 2:
            continue
        records = list(store.records_of([folder.name]))
        if extent_of(records) is None:
            num_left += 1
            continue
        if _is_packed(folder, files, records, paths):
            num_packed += 1
            num_files += len(files)
    return Compacted(num_packed=num_packed, num_files=num_files, num_left=num_left)


def _is_packed(folder: Path, files: Sequence[Path], records: list[Record], paths: Paths) -> bool:
    """Write a pack of all records of a measurement, remove the files they came from, and return whether it stays."""
    extent = extent_of(records)
    assert extent is not None  # the caller has looked
    content = encode_pack(records)
    place = paths.pack(folder.name, extent)
    if decode_pack(content) != records:
        raise StoreError(f"{folder} was not packed, since its pack would hold other outcomes; report this as a bug")
    with keeping(place):
        # An earlier pack of the same extent stays only if all files beside it are copies of its records.
        kept = records if publish(place, content) else read_whole(place, partial(pack_at, place), paths)
        if kept is None:
            # Damaged, or moved away since: the files beside it stay.
            return False
        if kept != records:
            raise StoreError(f"{place} holds other outcomes than the files beside it; 'robench store verify' reads it")
        for path in files:
            if path != place:
                # Another compaction may have removed it.
                with suppress(FileNotFoundError):
                    path.unlink()
    return True


UNUSED = "unused"


def move_aside(store: FolderStore, measurement_keys: Iterable[str]) -> list[Path]:
    """Move records, failures and adversarial examples of measurements to the folder ``unused``; return the new folders.

    Each folder moves as a whole. To undo it, move the folders back.
    """
    paths, moved = store.paths, []
    for key in measurement_keys:
        for folder in (paths.records, paths.failures, paths.adversarial):
            source = folder / key
            with keeping(source), suppress(FileNotFoundError):
                moved.append(_moved(source, store.path / UNUSED / folder.name))
    return moved


def shards_aside(store: FolderStore) -> Iterator[ShardHeader]:
    """Yield a header of each measurement that has been moved aside; those without a readable manifest are left out."""
    for folder in measurement_folders(store.path / UNUSED / store.paths.records.name):
        with suppress(OSError, DamagedError, NewerFormatError):
            yield decode_manifest(read_regular(folder / MANIFEST_NAME, MAX_BYTES)).shard


def _moved(source: Path, target: Path) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    # A measurement may have been moved aside before, and measured again.
    for name in itertools.chain([source.name], (f"{source.name}-{number}" for number in itertools.count(1))):
        if not (place := target / name).exists():
            try:
                return source.rename(place)
            except OSError as error:
                # Another command has moved the same measurement to the same place since.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    raise AssertionError("there is always a further number")
