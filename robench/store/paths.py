"""Names of all files of a results folder, defined here alone.

    <results>/records/<measurement key>/<shard key>.parquet
    <results>/records/<measurement key>/all-<size>-<stop>.parquet   many shards in one file; see ``packed``
    <results>/records/<measurement key>/_manifest.json
    <results>/failures/<measurement key>/<shard key>.json
    <results>/adversarial/<measurement key>/<shard key>.safetensors
    <results>/leases/<shard key>                a run is measuring the shard; see ``leases``
    <results>/unused/records/<measurement key>/ measurements moved aside whole; see ``upkeep``
    <results>/damaged/<file name>-<n>           damaged files, never overwritten

A file being written begins with a dot and ends in ``.part``; readers ignore it.
"""

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from robench.core.errors import StoreError
from robench.core.shard import ShardHeader, shard_key
from robench.store.sealed import PART_SUFFIX, candidate, reading

RECORD_SUFFIX = ".parquet"
FAILURE_SUFFIX = ".json"
# Readers of a folder of Parquet ignore names with this prefix.
MANIFEST_NAME = "_manifest.json"
ADVERSARIAL_SUFFIX = ".safetensors"

# A key is hexadecimal; what matters here is that no key can name a file outside its folder, or a hidden one.
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PACK = re.compile(r"all-([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Examples [0, stop) in shards of ``size``; the last may be smaller."""

    size: int
    stop: int

    def bounds(self) -> list[tuple[int, int]]:
        """Return start and stop of each shard, in order."""
        return [(start, min(start + self.size, self.stop)) for start in range(0, self.stop, self.size)]

    def keys(self, measurement_key: str) -> list[str]:
        """Return the key of each shard, in order."""
        return [shard_key(measurement_key, start, stop) for start, stop in self.bounds()]


class Paths:
    """Names of all files below one results folder, and its folders."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.records = results / "records"
        self.failures = results / "failures"
        self.adversarial = results / "adversarial"
        self.leases = results / "leases"
        self.folders = (self.records, self.failures, self.adversarial, self.leases, results / "damaged")

    def record(self, shard: ShardHeader) -> Path:
        """Return the path of a shard's record; raises StoreError if a key of the shard is not a valid file name."""
        return self.record_of(shard.measurement_key, shard.key)

    def record_of(self, measurement_key: str, shard_key: str) -> Path:
        """Return the path of a shard's record, given its keys; raises like ``record``."""
        return self.records / _checked(measurement_key) / f"{_checked(shard_key)}{RECORD_SUFFIX}"

    def pack(self, measurement_key: str, extent: Extent) -> Path:
        """Return the path of a pack of a measurement's records; raises like ``record``."""
        return self.records / _checked(measurement_key) / f"all-{extent.size}-{extent.stop}{RECORD_SUFFIX}"

    def manifest(self, measurement_key: str) -> Path:
        """Return the path of a measurement's manifest; raises like ``record``."""
        return self.records / _checked(measurement_key) / MANIFEST_NAME

    def failure(self, shard: ShardHeader) -> Path:
        """Return the path of a shard's failure; raises like ``record``."""
        return self.failures / _checked(shard.measurement_key) / f"{_checked(shard.key)}{FAILURE_SUFFIX}"

    def lease(self, shard_key: str) -> Path:
        """Return the path of a shard's lease; raises like ``record``."""
        return self.leases / _checked(shard_key)

    def adversarial_examples(self, measurement_key: str, shard_key: str) -> Path:
        """Return the path of a shard's adversarial examples; raises like ``record``."""
        return self.adversarial / _checked(measurement_key) / f"{_checked(shard_key)}{ADVERSARIAL_SUFFIX}"

    def damaged(self, path: Path) -> Iterator[Path]:
        """Yield candidate paths for a damaged file, without end; the first free one is used."""
        return (self.results / "damaged" / f"{path.name}-{number}" for number in itertools.count(1))

    def probe(self) -> Path:
        """Return the name of a test file for write access."""
        return candidate(self.records / "probe")

    def temporary(self) -> Iterator[Path]:
        """Yield all unfinished files and leases, including those of killed runs."""
        for top in (self.records, self.failures, self.adversarial, self.leases):
            # A folder that another command moves or removes meanwhile is passed over.
            for folder, _, names in os.walk(top):
                for name in names:
                    if top == self.leases or (name.startswith(".") and name.endswith(PART_SUFFIX)):
                        yield Path(folder, name)


def measurement_folders(folder: Path) -> list[Path]:
    """Return the folders of all measurements below ``folder``, by key; none if it does not exist."""
    with reading(folder):
        if not folder.exists():
            return []
        return sorted(child for child in folder.iterdir() if _KEY.fullmatch(child.name) and child.is_dir())


def kept_files(folder: Path, suffix: str) -> list[Path]:
    """Return the complete files of one measurement's ``folder``, by key; hidden and foreign ones are ignored.

    There are none if the folder does not exist; raises like ``measurement_folders``.
    """
    return [folder / f"{key}{suffix}" for key in kept_keys(folder, suffix)]


def kept_keys(folder: Path, suffix: str) -> list[str]:
    """Return the keys of the complete files of one measurement's ``folder``, sorted; see ``kept_files``.

    Only names are read: a folder may have thousands of files.
    """
    names: list[str] = []
    with reading(folder), suppress(FileNotFoundError, NotADirectoryError):
        names = [child.name for child in folder.iterdir()]
    keys = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(key for key in keys if _KEY.fullmatch(key))


def extent_named(stem: str) -> Extent | None:
    """Return the extent of a pack, given its name without suffix; None for the key of a record."""
    found = _PACK.fullmatch(stem)
    return None if found is None else Extent(size=int(found[1]), stop=int(found[2]))


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise StoreError(f"the key {key!r} cannot name a file: expected up to 64 of a-z, 0-9, '.', '_', '-'")
    return key
