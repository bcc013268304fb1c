"""Indices of tars, zips and Parquet shards of images: name, place and size in bytes of each member or row.

A file is indexed once. The index is kept beside it, as ``.NAME.robench-index``, where its folder can be written, and
holds as long as size and time of the file are the same.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.core.errors import MissingDataError
from robench.core.files import read_regular, replacing
from robench.datasets.archives import Member, read_members
from robench.datasets.packed_images import SHARD, ZIP, state_of
from robench.datasets.parquet_files import index_of_shard

# Suffixes of members of a WebDataset that describe an image; their content is part of the index.
NOTES: Final = (".cls", ".json")
_LARGEST_NOTE: Final = 1 << 16
_LARGEST_INDEX: Final = 1 << 30
_STAMP: Final = b"robench-index-1"
_ARCHIVE: Final = {"name": pa.string(), "start": pa.int64(), "num_bytes": pa.int64(), "note": pa.binary()}


def index_of(file: Path) -> pa.Table:
    """Return the index of a tar, zip or Parquet shard: a row for each member or row, in their order.

    Columns: ``name``, "" if unknown; ``start`` (see ``Packed``) and ``num_bytes``, int64; of archives ``note``, the
    content of small members with a suffix of ``NOTES``, otherwise null; of shards ``label``, int64, or null.
    """
    return _index(*state_of(file))


def members_of(file: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and size in bytes of each member or row."""
    table = index_of(file)
    yield from zip(*(table[each].to_pylist() for each in ("name", "start", "num_bytes")), strict=True)


# The largest tar of ImageNet-C has 750,000 members.
@lru_cache(maxsize=2)
def _index(file: Path, num_bytes: int, modified: int) -> pa.Table:
    stamp = {_STAMP: f"{num_bytes} {modified}".encode()}
    beside = file.with_name(f".{file.name}.robench-index")
    # An index that cannot be read is made anew.
    with suppress(Exception):
        kept = pq.read_table(pa.BufferReader(read_regular(beside, _LARGEST_INDEX)))
        if kept.schema.metadata == stamp:
            return kept
    made = index_of_shard((file, num_bytes, modified)) if file.suffix == SHARD else _index_of_archive(file)
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
