"""Typed tables as files of CSV or Parquet, written part by part; equal tables give equal bytes.

Parquet is written with fixed settings and names the release of pyarrow, so that bytes are equal under one release. In
CSV a missing value is an empty field, and no text is a formula to a spreadsheet.
"""

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.reports.machine_readable import inert_text

# Few distinct values in many rows.
LABEL = pa.dictionary(pa.int32(), pa.string())
# Rows that are Python objects at a time.
_ROWS_AT_ONCE = 10_000

Write = Callable[["Path", pa.Schema, Iterable[pa.Table]], int]


def label(value: str | None, num_rows: int) -> pa.DictionaryArray:
    """Return a column with one text in every row, or nothing."""
    return labels([value], [0] * num_rows)


def labels(values: list[str | None], places: list[int]) -> pa.DictionaryArray:
    """Return a column of few distinct texts, given their places in ``values``; None is missing."""
    known = [value for value in values if value is not None]
    indices = [None if values[place] is None else known.index(str(values[place])) for place in range(len(values))]
    return pa.DictionaryArray.from_arrays(
        pa.array([indices[place] for place in places], pa.int32()), pa.array(known, pa.string())
    )


def write_parquet(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
    """Write the parts of a table, each as row groups of its own, and return the number of rows."""
    num_rows = 0
    dictionaries = [field.name for field in schema if field.type == LABEL]
    # Opened here, since pyarrow takes no name that is not Unicode.
    with (
        path.open("wb") as file,
        pq.ParquetWriter(
            file,
            schema,
            version="2.6",
            compression="zstd",
            use_dictionary=dictionaries,
            write_statistics=True,
            # Readers that know Arrow would otherwise get categories where others get texts.
            store_schema=False,
            write_page_checksum=True,
        ) as writer,
    ):
        for part in parts:
            writer.write_table(part)
            num_rows += part.num_rows
    return num_rows


def write_csv(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
    """Write the parts of a table below one header, and return the number of rows.

    Numbers have as many digits as distinguish them; booleans are ``true`` and ``false``.
    """
    num_rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.names)
        for part in parts:
            for start in range(0, part.num_rows, _ROWS_AT_ONCE):
                columns = [column.to_pylist() for column in part.slice(start, _ROWS_AT_ONCE).columns]
                writer.writerows([_field(value) for value in row] for row in zip(*columns, strict=True))
            num_rows += part.num_rows
    return num_rows


FORMATS: Mapping[str, Write] = {"parquet": write_parquet, "csv": write_csv}


def _field(value: str | float | None) -> str | float | None:
    if isinstance(value, str):
        return inert_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value
