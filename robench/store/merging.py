"""Whole results folders: verification of every file, and merging of several machines' folders into one.

Files go from folder to folder byte for byte, after they have been verified; nothing is encoded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robench.core.errors import UsageError
from robench.store.adversarial import MAX_BYTES as MAX_BYTES_OF_EXAMPLES
from robench.store.complaints import keeping, reading
from robench.store.envelope import decode_failure, decode_manifest
from robench.store.parquet import decode_record
from robench.store.paths import (
    ADVERSARIAL_SUFFIX,
    FAILURE_SUFFIX,
    MANIFEST_NAME,
    RECORD_SUFFIX,
    Paths,
    kept_files,
    measurement_folders,
)
from robench.store.publish import publish
from robench.store.reading import MAX_BYTES, read_whole
from robench.store.safetensors_file import decode_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from robench.store.folder import FolderStore

RECORDS, MANIFESTS, FAILURES, ADVERSARIAL = "records", "manifests", "failures", "adversarial"
# Manifests before records, as a run writes them, so that no record is ever without one.
KINDS = (MANIFESTS, RECORDS, FAILURES, ADVERSARIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """File of a results folder that has been read whole.

    Attributes:
        kind: one of ``KINDS``.
        content: its bytes; None if they are not those that were written: then the file was set aside.
        value: the decoded record, manifest, failure or examples.
    """

    kind: str
    path: Path
    content: bytes | None
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result of a verification.

    Attributes:
        counts: number of sound files by kind.
        damaged: files that were set aside.
    """

    counts: dict[str, int]
    damaged: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Result of merging.

    Attributes:
        copied, known: number of files by kind that were copied, and of those that the target had already.
        conflicts: titles of shards whose outcomes differ between the folders; the target's stay, or the first copied.
        damaged: files of the sources that were set aside there.
    """

    copied: dict[str, int]
    known: dict[str, int]
    conflicts: tuple[str, ...]
    damaged: tuple[Path, ...]


def verify_store(store: FolderStore, on_file: Callable[[], None] = lambda: None) -> Verified:
    """Read every file of a results folder and check its seal; damaged ones are set aside with a warning.

    Raises:
        StoreError: a file cannot be read, or is of a later robench.
    """
    counts = dict.fromkeys(KINDS, 0)
    damaged = []
    for file in _files(store.path):
        on_file()
        if file.content is None:
            damaged.append(file.path)
        else:
            counts[file.kind] += 1
    return Verified(counts=counts, damaged=tuple(damaged))


def check_exists(store: FolderStore) -> None:
    """Refuse a results folder that does not exist.

    Raises:
        UsageError: it does not. StoreError: it cannot be read.
    """
    with reading(store.path):
        if not store.path.is_dir():
            raise UsageError(f"there is no results folder {store.path}; name another")


def merge_stores(
    target: FolderStore, sources: Sequence[FolderStore], on_file: Callable[[], None] = lambda: None
) -> Merged:
    """Copy what is kept in other results folders into one; what that has already stays.

    Failures are copied only if no folder has a record of their shard.

    Raises:
        UsageError: a source is the target, or there is no such folder.
        StoreError: a file cannot be read or written; what was copied before is whole.
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
    for kinds in ((MANIFESTS, RECORDS, ADVERSARIAL), (FAILURES,)):
        for source in sources:
            for file in _files(source.path, kinds):
                on_file()
                if file.content is None:
                    damaged.append(file.path)
                elif _copied(file, source, target):
                    copied[file.kind] += 1
                else:
                    known[file.kind] += 1
                    conflicts += [file.value.shard.title] if _is_other_record(file, source, target) else []
    return Merged(copied=copied, known=known, conflicts=tuple(dict.fromkeys(conflicts)), damaged=tuple(damaged))


def _copied(file: KeptFile, source: FolderStore, target: FolderStore) -> bool:
    """Return whether a file was copied: it was not, if the target has one, or of a failure's shard a record."""
    assert file.content is not None
    place = target.path / file.path.relative_to(source.path)
    paths = Paths(target.path)
    with keeping(place):
        if file.kind == FAILURES and paths.record(file.value.shard).exists():
            return False
        is_new = publish(place, file.content)
        if file.kind == RECORDS:
            paths.failure(file.value.shard).unlink(missing_ok=True)
        return is_new


def _is_other_record(file: KeptFile, source: FolderStore, target: FolderStore) -> bool:
    if file.kind != RECORDS:
        return False
    place = target.path / file.path.relative_to(source.path)
    kept = _read(RECORDS, place, Paths(target.path))
    return kept.content is not None and kept.value.outcomes != file.value.outcomes


def _files(results: Path, kinds: Sequence[str] = KINDS) -> Iterator[KeptFile]:
    """Yield every file of some kinds, measurement by measurement, read and verified one at a time."""
    paths = Paths(results)
    folders = {MANIFESTS: paths.records, RECORDS: paths.records, FAILURES: paths.failures}
    folders[ADVERSARIAL] = paths.adversarial
    for top in dict.fromkeys(folders[kind] for kind in kinds):
        with reading(top):
            measured = measurement_folders(top)
        for folder in measured:
            for kind in kinds:
                if folders[kind] == top:
                    yield from (_read(kind, path, paths) for path in _listed(kind, folder))


def _listed(kind: str, folder: Path) -> list[Path]:
    with reading(folder):
        if kind == MANIFESTS:
            manifest = folder / MANIFEST_NAME
            return [manifest] if manifest.exists() else []
        return kept_files(folder, _SUFFIXES[kind])


def _read(kind: str, path: Path, paths: Paths) -> KeptFile:
    def decode(content: bytes) -> tuple[bytes, Any]:
        return content, _DECODERS[kind](content)

    shard_of = None if kind == MANIFESTS else lambda found: found[1].shard
    max_bytes = MAX_BYTES_OF_EXAMPLES if kind == ADVERSARIAL else MAX_BYTES
    found = read_whole(path, decode, shard_of, paths, max_bytes=max_bytes)
    if found is None:
        return KeptFile(kind=kind, path=path, content=None)
    return KeptFile(kind=kind, path=path, content=found[0], value=found[1])


_SUFFIXES = {RECORDS: RECORD_SUFFIX, FAILURES: FAILURE_SUFFIX, ADVERSARIAL: ADVERSARIAL_SUFFIX}
_DECODERS: dict[str, Callable[[bytes], Any]] = {
    RECORDS: decode_record,
    MANIFESTS: decode_manifest,
    FAILURES: decode_failure,
    ADVERSARIAL: decode_examples,
}
