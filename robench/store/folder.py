"""Store of one immutable file per shard: no database, no lock, safe with several writers on a shared file system.

Files appear whole, and under their name only once: a record is written to a temporary file and then linked, so that of
two writers of one shard the first wins. Damaged files are set aside with a warning, and measured again.
"""

import errno
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeVar

from robench.core.errors import StoreError
from robench.core.files import absolute, write_whole
from robench.core.records import Failure, Manifest, Record
from robench.core.shard import ShardHeader
from robench.store.adversarial import AdversarialFolder
from robench.store.damaged import read_whole, warn_if_other_outcomes
from robench.store.envelope import decode_failure, decode_manifest, encode_failure, encode_manifest
from robench.store.leases import Leases
from robench.store.parquet import decode_record, encode_record
from robench.store.paths import FAILURE_SUFFIX, Paths, kept_files, measurement_folders
from robench.store.record_files import RecordFiles
from robench.store.sealed import keeping, opening, persistently, publish

HOUR_SECONDS = 3600.0
# Each further attempt means that another damaged file has appeared in the same place.
_ATTEMPTS = 3

Content = TypeVar("Content")


class FolderStore(RecordFiles):
    """Store of results below one folder, which is created by the first write (``core.protocols.Store``).

    Args:
        path: the results folder; see ``paths`` for its contents. A relative path is resolved immediately, so that later
            changes of the current folder have no effect.

    Raises:
        UsageError: the path is empty, or uses an unknown user's home folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = absolute(path, "results")
        super().__init__(Paths(self.path))

    def __repr__(self) -> str:
        return f"FolderStore({str(self.path)!r})"

    @property
    def adversarial(self) -> AdversarialFolder:
        """Return the store of adversarial examples below the same folder."""
        return AdversarialFolder(self.path)

    def claims(self, has: Callable[[str, str], bool] | None = None) -> Leases:
        """Return claims on shards as files of this folder; ``has`` replaces the store's own."""
        return Leases(self.paths, has or self.has)

    def put(self, result: Record | Failure) -> None:
        """Store a result: the first record of a shard, which replaces its failure, or its latest failure.

        Raises:
            StoreError: it could not be stored; existing files are unharmed.
        """
        if isinstance(result, Failure):
            self._put_failure(result)
        else:
            self._put_record(result)

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """Yield all complete records of the measurements that ``select`` accepts; see ``records_of``."""
        yield from self.records_of([each.shard.measurement_key for each in self.manifests() if select(each.shard)])

    def manifests(self, measurement_keys: Collection[str] | None = None) -> Iterator[Manifest]:
        """Yield the manifest of every measurement that has a complete record, by key; raises like ``records_of``.

        Measurements in format 1 have no manifest; it is read from their first record. With ``measurement_keys`` no
        file of any other measurement is opened.
        """
        for folder in measurement_folders(self.paths.records):
            if measurement_keys is not None and folder.name not in measurement_keys:
                continue
            path = self.paths.manifest(folder.name)
            kept = None
            if path not in self._refused:
                kept = read_whole(path, self.checked(path, decode_manifest), self.paths)
            if kept is not None:
                self._stated[folder.name] = kept.shard
            if kept is None or not self._stems(folder):
                first = self._first(folder)
                kept = None if first is None else Manifest(shard=first.shard, provenance=first.provenance)
            if kept is not None:
                yield kept

    def failures(self) -> Iterator[Failure]:
        """Return all stored failures of shards that have no record, by key; raises like ``records_of``."""
        found = [
            failure
            for folder in measurement_folders(self.paths.failures)
            for path in kept_files(folder, FAILURE_SUFFIX)
            if (failure := self._read(path, self.checked(path, decode_failure))) is not None
            # A writer that was killed between the two steps leaves both; the record counts.
            and not self.has(failure.shard.measurement_key, failure.shard.key)
        ]
        yield from sorted(found, key=lambda failure: failure.shard.key)

    def check_writable(self) -> None:
        """Create the folder, verify that it is writable, and remove files that killed writers left over an hour ago.

        Raises:
            StoreError: the disk is full; StoreUnwritableError: it cannot be written.
        """
        self.sweep(HOUR_SECONDS)

    def sweep(self, older_than_seconds: float) -> int:
        """Remove unfinished files and leases that are older, and return their number; raises like ``check_writable``.

        A lease of a run that goes on is renewed every few seconds.
        """
        removed = 0
        with opening(self.path):
            for folder in self.paths.folders:
                if os.path.lexists(folder) and not folder.is_dir():
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            before = self._now() - older_than_seconds
            for each in self.paths.temporary():
                # Another process, or the writer itself, may have removed it.
                with suppress(FileNotFoundError, PermissionError):
                    if each.stat().st_mtime <= before:
                        each.unlink()
                        removed += 1
        return removed

    def _now(self) -> float:
        # The file server's clock, which also dated the files; that of this machine may differ.
        probe = self.paths.probe()
        write_whole(probe, b"robench")
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def _put_record(self, record: Record) -> None:
        content = encode_record(record)
        path = self.paths.record(record.shard)
        with keeping(path):
            publish(self.paths.manifest(record.shard.measurement_key), encode_manifest(record))
            for _ in range(_ATTEMPTS):
                # It may be in a pack, which has no file of its own for the shard.
                is_kept = self.has(record.shard.measurement_key, record.shard.key)
                if not is_kept and publish(path, content):
                    break
                if (kept := self.record(record.shard)) is not None:
                    warn_if_other_outcomes(kept, decode_record(content))
                    break
            else:
                raise StoreError(f"{path} is damaged and cannot be replaced; move it away and run again")
            self.paths.failure(record.shard).unlink(missing_ok=True)

    def _put_failure(self, failure: Failure) -> None:
        content = encode_failure(failure)
        path = self.paths.failure(failure.shard)
        with keeping(path):
            if not self.has(failure.shard.measurement_key, failure.shard.key):
                persistently(partial(write_whole, path, content))
