"""Indices of tars, zips and Parquet shards of images: name, place and size in bytes of each member or row.

A file is indexed once. The index is kept beside it, as ``.NAME.robench-index``, where its folder can be written, and
holds as long as size and time of the file are the same. Shards have the layout of the Hugging Face hub.
"""

import threading
from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # likewise
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.core.errors import MissingDataError, described
from robench.core.files import open_regular, read_regular, replacing
from robench.datasets.archives import Member, read_members
from robench.datasets.packed_images import SHARD, ZIP, state_of

# Suffixes of members of a WebDataset that describe an image; their content is part of the index.
NOTES: Final = (".cls", ".json")
_LARGEST_NOTE: Final = 1 << 16
_LARGEST_INDEX: Final = 1 << 30
_STAMP: Final = b"robench-index-1"
_ARCHIVE: Final = {"name": pa.string(), "start": pa.int64(), "num_bytes": pa.int64(), "note": pa.binary()}
_ROWS: Final = {"name": pa.string(), "num_bytes": pa.int64(), "label": pa.int64()}
# Verification reads in several threads, and readers of Parquet are for one at a time.
_ONE_READER: Final = threading.RLock()


def index_of(file: Path) -> pa.Table:
    """Return the index of a tar, zip or Parquet shard: a row for each member or row, in their order.

    Columns: ``name``, "" if unknown; ``start`` (see ``Packed``) and ``num_bytes``, int64; of archives ``note``, the
    content of small members with a suffix of ``NOTES``, otherwise null; of shards ``label``, int64, or null.

    Raises:
        OSError: it cannot be read.
        MissingDataError: it is damaged, compressed as a whole, has two members of one name, or is another file.
    """
    with _ONE_READER:
        return _index(*state_of(file))


# The largest tar of ImageNet-C has 750,000 members.
@lru_cache(maxsize=2)
def _index(file: Path, num_bytes: int, modified: int) -> pa.Table:
    stamp = {_STAMP: f"{num_bytes} {modified}".encode()}
    beside = file.with_name(f".{file.name}.robench-index")
    # Whatever is wrong with an index, it is made anew.
    with suppress(Exception):
        kept = pq.read_table(pa.BufferReader(read_regular(beside, _LARGEST_INDEX)))
        if kept.schema.metadata == stamp:
            return kept
    made = _index_of_shard(file) if file.suffix == SHARD else _index_of_archive(file)
    made = made.replace_schema_metadata(stamp)
    with suppress(OSError), replacing(beside) as written:
        pq.write_table(made, written)
    return made


def _index_of_archive(file: Path) -> pa.Table:
    is_zip = file.suffix == ZIP
    columns: dict[str, list[object]] = {name: [] for name in _ARCHIVE}
    for number, member in enumerate(read_members(file)):
        if is_zip != (member.kind == "zip") or member.kind == "tar.gz":
            raise MissingDataError(
                f"{file} is a {member.kind} by its content, whose images cannot be read one by one under this name."
                " Rename it, decompress it to a .tar, or unpack it by 'robench data prepare'"
            )
        if member.is_folder:
            continue
        columns["name"].append("/".join(member.parts))
        columns["start"].append(number if is_zip else member.start)
        columns["num_bytes"].append(member.num_bytes)
        is_note = member.parts[-1].endswith(NOTES) and member.num_bytes <= _LARGEST_NOTE
        columns["note"].append(_content(member) if is_note else None)
    counts = Counter(columns["name"])
    if len(counts) < len(columns["name"]):
        twice = next(name for name, count in counts.items() if count > 1)
        raise MissingDataError(f"archive {file} has two members {twice!r}; get it anew, or write it with one of them")
    return pa.table({name: pa.array(columns[name], kind) for name, kind in _ARCHIVE.items()})


def _content(member: Member) -> bytes:
    with member.open() as opened:
        return opened.read()


def _index_of_shard(file: Path) -> pa.Table:
    """Return the index of a shard, each of whose images is read for it, one row group at a time."""
    shard = _shard(*state_of(file))
    tables = [pa.table({name: pa.array([], kind) for name, kind in _ROWS.items()})]
    for group in range(len(shard.ends)):
        rows = shard.read(group, "label")
        paths = pc.struct_field(rows["image"], "path") if shard.has_paths else pa.nulls(len(rows), pa.string())
        columns = {
            "name": pc.fill_null(pc.cast(paths, pa.string()), ""),
            "num_bytes": pc.fill_null(pc.cast(pc.binary_length(_contents(rows)), pa.int64()), 0),
            "label": pc.cast(rows["label"], pa.int64()),
        }
        tables.append(pa.table(columns))
    made = pa.concat_tables(tables)
    return made.append_column("start", pa.array(range(len(made)), pa.int64()))


class _Shard:
    """Parquet file with a column ``image``, a struct of the encoded bytes and the path, and a number ``label``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        opened = open_regular(path)
        try:
            self._file = pq.ParquetFile(opened, page_checksum_verification=True)
        except Exception as error:  # pyarrow raises many types on broken files
            raise self._damaged(error) from error
        schema, fields = self._file.schema_arrow, dict[str, pa.DataType]()
        kinds = dict(zip(schema.names, schema.types, strict=True))
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
        metadata = self._file.metadata
        # After the last row of each row group.
        self.ends = [*accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))]

    def read(self, group: int, *others: str) -> pa.Table:
        """Return the images of a row group, with other columns."""
        try:
            paths = ["image.path"] if self.has_paths and others else []
            return self._file.read_row_group(group, columns=["image.bytes", *paths, *others], use_threads=False)
        except Exception as error:  # likewise
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> MissingDataError:
        reason = " ".join(described(error).split())
        return MissingDataError(
            f"{self.path} is not a whole Parquet file ({reason}); get it anew from the source of the dataset"
        )


def image_of_row(file: Path, row: int) -> bytes:
    """Return the encoded image of a row of a shard; b"" if it is null.

    Raises:
        OSError: it cannot be read.
        MissingDataError: it is damaged.
    """
    with _ONE_READER:
        state = state_of(file)
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
    return _shard(file, num_bytes, modified).read(group)


def _contents(rows: pa.Table) -> pa.ChunkedArray:
    return pc.struct_field(rows["image"], "bytes")
