"""Files of records in a results folder, one for each shard or packed: listed, read, and described without outcomes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from robench.core.records import Failure, Manifest, Record
from robench.core.shard import Measurement, ShardHeader, shard_key
from robench.core.suite import Condition
from robench.store.consistency import DataClaims, Promises, headers_outvoted
from robench.store.damaged import check_place, read_whole, set_aside
from robench.store.packed import decode_pack_description, described_record, pack_at
from robench.store.parquet import decode_description, decode_record
from robench.store.paths import (
    MANIFEST_NAME,
    RECORD_SUFFIX,
    Extent,
    Paths,
    extent_named,
    kept_keys,
    measurement_folders,
)
from robench.store.sealed import DamagedError, reading

# Of measurements with more files, so many are opened to describe all.
MOST_OPENED = 8
# A pack may appear, and the records in it go, while they are read.
_ATTEMPTS = 3

Content = TypeVar("Content")
Found = TypeVar("Found", Record, Manifest, Failure, list[Record])


class RecordFiles:
    """Records of a results folder, read from their files.

    Attributes:
        num_lost: number of files that were listed but turned out damaged, or gone, when they were opened.
    """

    def __init__(self, paths: Paths) -> None:
        self.num_lost = 0
        self.paths = paths
        # By measurement: its folder, which may be another by now, when it changed last, and the keys in its packs.
        self._packed: dict[str, tuple[tuple[int, int], frozenset[str]]] = {}
        self._promises = Promises()
        self._data = DataClaims()
        # Headers of manifests that were read, and files that could not be set aside.
        self._stated: dict[str, ShardHeader] = {}
        self._refused: set[Path] = set()

    def expect(self, conditions: Iterable[Condition], measurements: Iterable[Measurement] = ()) -> None:
        """Set records aside that are read from now on and break what conditions or planned measurements promise."""
        self._promises.add(conditions, measurements)

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a record.

        Files are only listed: damaged ones count until they are read, which sets them aside with a warning.

        Raises:
            StoreError: a folder cannot be read.
        """
        keys: set[str] = set()
        for folder in measurement_folders(self.paths.records):
            for stem in self._stems(folder):
                extent = extent_named(stem)
                keys.update([stem] if extent is None else extent.keys(folder.name))
        return keys

    def has(self, measurement_key: str, key: str) -> bool:
        """Return whether a shard has a record; raises like ``keys``."""
        path = self.paths.record_of(measurement_key, key)
        with reading(path):
            return path.exists() or key in self._keys_in_packs(path.parent)

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """Yield all complete records of some measurements, by measurement key and start.

        Raises:
            StoreError: a file cannot be read, or is of a later robench.
        """
        keys = sorted(set(measurement_keys))
        found = [self._records_of(key) for key in keys]
        if not self._data.agree:
            self._refuse_outvoted()
            found = [self._records_of(key) for key in keys]
        for records in found:
            yield from records

    def _records_of(self, measurement_key: str) -> list[Record]:
        folder = self.paths.records / measurement_key
        found = self._read_again(
            folder,
            lambda stems: {folder / f"{stem}{RECORD_SUFFIX}": self._records_in(folder, stem) for stem in stems},
        )
        headers = {path: [record.shard for record in records] for path, records in found.items()}
        manifest = folder / MANIFEST_NAME
        if (stated := self._stated.get(measurement_key)) is not None:
            headers[manifest] = [stated]
        lost = headers_outvoted(headers, manifest)
        for path, reason in lost.items():
            self.refuse(path, reason)
        if manifest in lost:
            # The caller knows the measurement by what it says; read again, it is known by its records.
            del self._stated[measurement_key]
            return []
        records = {}
        for path, of_file in found.items():
            for record in of_file if path not in lost else ():
                self._data.add(path, record)
                records[record.shard.key] = record
        return sorted(records.values(), key=lambda record: (record.shard.start, record.shard.stop))

    def _refuse_outvoted(self) -> None:
        """Set aside the files whose records are contradicted by those of more other files of the folder."""
        claims = DataClaims()
        for folder in measurement_folders(self.paths.records):
            for stem in self._stems(folder):
                for record in self._records_in(folder, stem):
                    claims.add(folder / f"{stem}{RECORD_SUFFIX}", record)
        # They agree if a file was replaced since it was read.
        for path, reason in claims.outvoted().items():
            self.refuse(path, reason)
        self._data = DataClaims()

    def refuse(self, path: Path, reason: str) -> None:
        """Set aside a file that contradicts others, or ignore it from now on where it cannot be moved."""
        set_aside(path, self.paths.damaged(path), DamagedError(reason))
        self.num_lost += 1
        if path.exists():
            self._refused.add(path)

    def record(self, shard: ShardHeader) -> Record | None:
        """Return the record of a shard, or None if it is missing or damaged; raises like ``records_of``."""
        single = self.paths.record(shard)
        with reading(single):
            is_single = single.exists()
        found = self._records_in(single.parent, shard.key) if is_single else ()
        # A pack may have replaced it since.
        if not found and self.has(shard.measurement_key, shard.key):
            found = self._records_of(shard.measurement_key)
        return next((record for record in found if record.shard.key == shard.key), None)

    def _first(self, folder: Path) -> Record | None:
        """Return a record of a measurement without its outcomes; None if there is no sound one."""
        return self._read_again(
            folder, lambda stems: next((each for stem in stems for each in self._described_in(folder, stem)), None)
        )

    def outline(self, measurement_key: str) -> list[Record]:
        """Return records without outcomes that cover all shards of a measurement, by start; raises like ``records_of``.

        Of many files only a few are opened. The shards of the others follow from their keys; adjacent ones are one
        record, whose provenance is that of an opened one, with the opened ones' mean of seconds for each shard.
        """
        folder = self.paths.records / measurement_key
        return self._read_again(folder, partial(self._outline, folder))

    def _outline(self, folder: Path, stems: Sequence[str]) -> list[Record]:
        single = [stem for stem in stems if extent_named(stem) is None]
        opened = single if len(single) <= MOST_OPENED else single[:: len(single) // MOST_OPENED][:MOST_OPENED]
        known = [each for stem in [*opened, *_packs(stems)] for each in self._described_in(folder, stem)]
        found = {each.shard.key: each for each in known}
        rest = set(single) - found.keys() - set(opened)
        sample = [each for each in known if each.shard.key in opened]
        joined: list[Record] = []
        if rest and sample:
            joined, inferred = _inferred(sample, rest)
            rest -= inferred
        # Such as the last shard of a condition, which is smaller than all others.
        found |= {each.shard.key: each for stem in sorted(rest) for each in self._described_in(folder, stem)}
        return sorted([*joined, *found.values()], key=lambda record: (record.shard.start, record.shard.stop))

    def _read_again(self, folder: Path, read: Callable[[Sequence[str]], Content]) -> Content:
        """Apply ``read`` to the names of the files of a folder, again if a pack replaced some meanwhile."""
        for _ in range(_ATTEMPTS):
            stems = self._stems(folder)
            found = read(stems)
            if _packs(stems) == _packs(self._stems(folder)):
                break
        return found

    def _stems(self, folder: Path) -> list[str]:
        return kept_keys(folder, RECORD_SUFFIX)

    def _keys_in_packs(self, folder: Path) -> frozenset[str]:
        try:
            state = folder.stat()
        except FileNotFoundError:
            return frozenset()
        changed = state.st_ino, state.st_mtime_ns
        known = self._packed.get(folder.name)
        if known is None or known[0] != changed:
            extents = map(extent_named, kept_keys(folder, RECORD_SUFFIX))
            keys = frozenset(key for each in extents if each is not None for key in each.keys(folder.name))
            known = self._packed[folder.name] = changed, keys
        return known[1]

    def _records_in(self, folder: Path, stem: str) -> Sequence[Record]:
        path = folder / f"{stem}{RECORD_SUFFIX}"
        if path in self._refused:
            return []
        if extent_named(stem) is not None:
            return self._read(path, self.checked(path, partial(pack_at, path))) or []
        record = self._read(path, self.checked(path, decode_record))
        return [] if record is None else [record]

    def checked(
        self, path: Path, decode: Callable[[bytes], Found], *, has_outcomes: bool = True
    ) -> Callable[[bytes], Found]:
        """Return a decoder that also refuses what contradicts itself or belongs elsewhere than at ``path``.

        It raises like all decoders (``envelope``). Records without outcomes are not ``has_outcomes``.
        """

        def checked(content: bytes) -> Found:
            found = decode(content)
            for each in found if isinstance(found, list) else [found]:
                if has_outcomes and isinstance(each, Record):
                    self._promises.check_record(each)
                else:
                    self._promises.check_header(each)
            if not isinstance(found, list):
                check_place(path, found.shard)
            return found

        return checked

    def _described_in(self, folder: Path, stem: str) -> Sequence[Record]:
        path = folder / f"{stem}{RECORD_SUFFIX}"
        if path in self._refused:
            return []
        if extent_named(stem) is not None:
            decode = partial(pack_at, path, decode=decode_pack_description)
            return self._read(path, self.checked(path, decode, has_outcomes=False)) or []
        found = self._read(path, self.checked(path, decode_description))
        return [] if found is None else [described_record(found.shard, found.provenance)]

    def _read(self, path: Path, decode: Callable[[bytes], Content]) -> Content | None:
        found = read_whole(path, decode, self.paths)
        self.num_lost += found is None
        return found


def _packs(stems: Sequence[str]) -> list[str]:
    return [stem for stem in stems if extent_named(stem) is not None]


def _inferred(known: Sequence[Record], keys: Collection[str]) -> tuple[list[Record], set[str]]:
    """Return records without outcomes of the shards with some keys, and the keys of those as large as a known one.

    Adjacent shards are one record, since a measurement may have thousands of them.
    """
    shard, provenance = known[0].shard, known[0].provenance
    seconds = sum(each.provenance.seconds for each in known) / len(known)
    joined: list[tuple[int, int, int]] = []
    found: set[str] = set()
    for size in sorted({each.shard.stop - each.shard.start for each in known}):
        extent = Extent(size=size, stop=shard.dataset.num_examples)
        for (start, stop), key in zip(extent.bounds(), extent.keys(shard.measurement_key), strict=True):
            if key not in keys or key in found:
                continue
            found.add(key)
            if joined and joined[-1][1] == start:
                first, _, count = joined.pop()
                joined.append((first, stop, count + 1))
            else:
                joined.append((start, stop, 1))
    records = [
        described_record(
            replace(shard, key=shard_key(shard.measurement_key, start, stop), start=start, stop=stop),
            replace(provenance, seconds=count * seconds),
        )
        for start, stop, count in joined
    ]
    return records, found
