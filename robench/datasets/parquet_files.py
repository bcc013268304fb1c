"""Parquet files, read one row group at a time; and shards of images in the layout of the Hugging Face hub.

Such a shard has a column ``image``, {bytes, path}, and ``label``.
"""

import threading
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # likewise
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.core.errors import MissingDataError, described
from robench.core.files import open_regular

_ROWS: Final = {"name": pa.string(), "num_bytes": pa.int64(), "label": pa.int64()}
# Verification reads in several threads, and readers of Parquet are for one at a time.
_ONE_READER: Final = threading.RLock()


class ParquetRows:
    """Rows of an open Parquet file, whose checksums are verified; ``title`` names it in messages.

    Attributes:
        kinds: types of the columns by their names.
        ends: for each row group the number of rows up to its end.
    """

    def __init__(self, opened: BinaryIO, title: str) -> None:
        self._title = title
        try:
            self._file = pq.ParquetFile(opened, page_checksum_verification=True)
        except Exception as error:  # pyarrow raises many types on broken files
            raise self._damaged(error) from error
        schema, metadata = self._file.schema_arrow, self._file.metadata
        self.kinds = dict(zip(schema.names, schema.types, strict=True))
        self.ends = [*accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))]

    def read(self, group: int, columns: list[str]) -> pa.Table:
        """Return columns of a row group."""
        try:
            return self._file.read_row_group(group, columns=columns, use_threads=False)
        except Exception as error:  # likewise
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> MissingDataError:
        reason = " ".join(described(error).split())
        return MissingDataError(f"{self._title} is not a whole Parquet file ({reason}); get it anew from its source")


def index_of_shard(state: tuple[Path, int, int]) -> pa.Table:
    """Return the index of a shard (``packed_index``), for which each image is read, one row group at a time."""
    shard = _shard(*state)
    tables = [pa.table({name: pa.array([], kind) for name, kind in _ROWS.items()})]
    for group in range(len(shard.ends)):
        rows = shard.read(group, ["image.bytes", *(["image.path"] if shard.has_paths else []), "label"])
        paths = pc.struct_field(rows["image"], "path") if shard.has_paths else pa.nulls(len(rows), pa.string())
        columns = {
            "name": pc.fill_null(pc.cast(paths, pa.string()), ""),
            "num_bytes": pc.fill_null(pc.cast(pc.binary_length(_contents(rows)), pa.int64()), 0),
            "label": pc.cast(rows["label"], pa.int64()),
        }
        tables.append(pa.table(columns))
    made = pa.concat_tables(tables)
    return made.append_column("start", pa.array(range(len(made)), pa.int64()))


class _Shard(ParquetRows):
    """Parquet file with a column ``image``, a struct of the encoded bytes and the path, and a number ``label``."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_regular(path), str(path))
        kinds, fields = self.kinds, dict[str, pa.DataType]()
        if pa.types.is_struct(image := kinds.get("image", pa.null())):
            fields = {each.name: each.type for each in image}
        kind = fields.get("bytes", pa.null())
        is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if not is_binary or not pa.types.is_integer(kinds.get("label", pa.null())):
            raise MissingDataError(
                f"{path} has the columns {', '.join(kinds)}; expected image, a struct with bytes, and label, a whole"
                " number. Is it a shard of another dataset?"
            )
        self.has_paths = pa.types.is_string(fields.get("path", pa.null()))


def image_of_row(state: tuple[Path, int, int], row: int) -> bytes:
    """Return the encoded image of a row of a shard, given its state; b"" if it is null."""
    with _ONE_READER:
        ends = _shard(*state).ends
        group = bisect_right(ends, row)
        rows = _contents(_row_group(*state, group))
        content: bytes | None = rows[row - (ends[group - 1] if group else 0)].as_py()
    return content or b""


@lru_cache(maxsize=32)
def _shard(file: Path, num_bytes: int, modified: int) -> _Shard:
    return _Shard(file)


# A row group of published shards has 100 images.
@lru_cache(maxsize=1)
def _row_group(file: Path, num_bytes: int, modified: int, group: int) -> pa.Table:
    return _shard(file, num_bytes, modified).read(group, ["image.bytes"])


def _contents(rows: pa.Table) -> pa.ChunkedArray:
    return pc.struct_field(rows["image"], "bytes")
