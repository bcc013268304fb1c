"""The names of all files of a results folder; nothing else makes any.

    <results>/records/<measurement key>/<shard key>.parquet
    <results>/records/<measurement key>/_manifest.json
    <results>/failures/<measurement key>/<shard key>.json
    <results>/adversarial/<measurement key>/<shard key>.safetensors
    <results>/damaged/<file name>-<n>           what was found broken, never overwritten

A file being written begins with a dot and ends in ``.part``; readers pass it by.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import StoreError
from robench.store.seal import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from robench.core.shard import ShardHeader

RECORD_SUFFIX = ".parquet"
FAILURE_SUFFIX = ".json"
# Readers of a folder of Parquet pass over names that begin so.
MANIFEST_NAME = "_manifest.json"
ADVERSARIAL_SUFFIX = ".safetensors"
PART_SUFFIX = ".part"

# A key is hexadecimal; what matters here is that no key can name a file outside its folder, or a hidden one.
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Paths:
    """The names of all files below one results folder."""

    results: Path

    @property
    def records(self) -> Path:
        """Folder of all records."""
        return self.results / "records"

    @property
    def failures(self) -> Path:
        """Folder of all failures."""
        return self.results / "failures"

    def record(self, shard: ShardHeader) -> Path:
        """Return where a shard's record belongs.

        Raises:
            StoreError: a key of the shard cannot be part of a file's name.
        """
        return self.records / _checked(shard.measurement_key) / f"{_checked(shard.key)}{RECORD_SUFFIX}"

    def manifest(self, measurement_key: str) -> Path:
        """Return where the description of a measurement belongs; errors as of ``record``."""
        return self.records / _checked(measurement_key) / MANIFEST_NAME

    def failure(self, shard: ShardHeader) -> Path:
        """Return where a shard's failure belongs; errors as of ``record``."""
        return self.failures / _checked(shard.measurement_key) / f"{_checked(shard.key)}{FAILURE_SUFFIX}"

    @property
    def adversarial(self) -> Path:
        """Folder of all adversarial examples."""
        return self.results / "adversarial"

    def adversarial_examples(self, measurement_key: str, shard_key: str) -> Path:
        """Return where a shard's adversarial examples belong; errors as of ``record``."""
        return self.adversarial / _checked(measurement_key) / f"{_checked(shard_key)}{ADVERSARIAL_SUFFIX}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Every folder directly below the results folder."""
        return self.records, self.failures, self.adversarial, self.results / "damaged"

    def damaged(self, path: Path) -> Iterator[Path]:
        """Yield the places where a damaged file may go, without end; the first free one is to be taken."""
        return (self.results / "damaged" / f"{path.name}-{number}" for number in itertools.count(1))

    def probe(self) -> Path:
        """Return a name for a file that is written only to see whether it can be."""
        return _part(self.records / "probe")

    def parts(self) -> Iterator[Path]:
        """Yield all files that are being written, or were when their writer was killed."""
        for folder in (self.records, self.failures, self.adversarial):
            yield from folder.rglob(f".*{PART_SUFFIX}")


def candidate(path: Path) -> Path:
    """Return a name beside ``path``, of this writer alone, for what is to become ``path``."""
    return _part(path)


def measurement_folders(folder: Path) -> list[Path]:
    """Return the folders of all measurements below ``folder``, by key; none where it does not exist."""
    if not folder.exists():
        return []
    return sorted(child for child in folder.iterdir() if _KEY.fullmatch(child.name) and child.is_dir())


def kept_files(folder: Path, suffix: str) -> list[Path]:
    """Return the whole files of one measurement's ``folder``, by key; hidden and foreign ones are passed by."""
    return sorted(child for child in folder.iterdir() if child.suffix == suffix and _KEY.fullmatch(child.stem))


def check_place(path: Path, shard: ShardHeader) -> None:
    """Make sure that the file of ``shard`` is where it belongs.

    Raises:
        DamagedError: somebody copied or renamed it.
    """
    if (path.parent.name, path.stem) != (shard.measurement_key, shard.key):
        raise DamagedError(f"it is of shard {shard.key} of measurement {shard.measurement_key}, so it was moved here")


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PART_SUFFIX}")


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise StoreError(f"the key {key!r} cannot name a file: wanted up to 64 of a-z, 0-9, '.', '_', '-'")
    return key
