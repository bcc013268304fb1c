"""Encoded images inside tars, zips and Parquet shards, read one at a time without unpacking.

Reading one costs a range of a tar, a member of a zip, or the row group of a Parquet shard that contains it; the row
group read last stays in memory. Places come from an index (``packed_index``).
"""

import os
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, Final

from robench.core.files import open_regular

SHARD: Final = ".parquet"
ZIP: Final = ".zip"
# A file with its size in bytes and time of change, the key of all caches of its content.
FileState = tuple[Path, int, int]


@dataclass(frozen=True, slots=True)
class Packed:
    """Encoded image inside a file: ``start`` is its first byte in a tar, its number in a zip or its row in Parquet."""

    file: Path
    start: int
    num_bytes: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} in {self.file}"

    def read(self) -> bytes:
        """Return the encoded image."""
        if self.file.suffix == SHARD:
            # Imported here, since decoding processes start sooner without pyarrow.
            from robench.datasets.parquet_files import image_of_row

            content = image_of_row(state_of(self.file), self.start)
        elif self.file.suffix == ZIP:
            zipped = _zip(*state_of(self.file))
            content = zipped.read(zipped.infolist()[self.start])
        else:
            with open_regular(self.file) as file:
                content = os.pread(file.fileno(), self.num_bytes, self.start)
        if len(content) != self.num_bytes:
            raise ValueError(f"it has {len(content):,} bytes there, and {self.num_bytes:,} in the index of the file")
        return content


# Place of an encoded image: a file, or part of one.
Stored = Path | Packed


def open_stored(stored: Stored) -> IO[bytes]:
    """Open an encoded image for reading."""
    return open_regular(stored) if isinstance(stored, Path) else BytesIO(stored.read())


def state_of(file: Path) -> FileState:
    """Return the state of a file."""
    found = file.stat()
    return file, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=2)
def _zip(file: Path, num_bytes: int, modified: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(open_regular(file))
