"""Records as Parquet: one column per field of the outcome, the envelope as JSON in the metadata.

The columns follow from the type hints of the outcome's dataclass, so that a new task needs nothing here. Four
dictionary-encoded columns before them repeat parts of the envelope, for readers of plain Parquet (pandas, DuckDB):
docs/results.md documents the schema. robench itself accepts a file only if its seal is valid (``sealed``). Equal
records give equal bytes under one release of pyarrow, which names itself in the file.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
from numpy.typing import NDArray

from robench.core.columns import Field, Outcomes, Values, fields_of, lists_of
from robench.core.errors import ContractError, StoreError
from robench.core.outcomes import Outcome
from robench.core.records import Manifest, Record
from robench.store.envelope import audit_of, envelope_text, members_of_audit, provenance_of, read_envelope, shard_of
from robench.store.sealed import DamagedError, NewerFormatError, check_seal, seal
from robench.tasks import TASKS

METADATA_KEY = b"robench"
# For readers of the files alone; names at the time of the measurement, which are not part of its key.
LABELS = ("model", "dataset", "condition", "budget")

_LABEL_TYPE = pa.dictionary(pa.int32(), pa.string())
_LISTS = pa.list_(pa.field("element", pa.int64(), nullable=False))
_ARROW_TYPES: Mapping[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    tuple: _LISTS,
}


def schema_of(outcome_type: type[Outcome]) -> pa.Schema:
    """Return the columns of an outcome: text, whole numbers, booleans, floats and lists, each optional or not.

    Raises:
        TypeError: a field has another type.
    """
    fields = fields_of(outcome_type).values()
    return pa.schema([pa.field(field.name, _ARROW_TYPES[field.type], nullable=field.optional) for field in fields])


def encode_record(record: Record) -> bytes:
    """Return a record as sealed Parquet; raises like ``table_of``."""
    text = envelope_text(record.shard, record.provenance, **members_of_audit(record))
    return sealed(table_of(record), text)


def sealed(table: pa.Table, text: str) -> bytes:
    """Return a table as Parquet, with an envelope that ends in a blank seal, which is filled in."""
    sink = pa.BufferOutputStream()
    # Neither statistics nor a copy of the schema: both would repeat values that the seal has to cover anyway.
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        use_dictionary=list(LABELS),
        write_statistics=False,
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA_KEY.decode(): text})
    return seal(sink.getvalue().to_pybytes())


def decode_description(content: bytes) -> Manifest:
    """Return header and provenance of a file's record, without reading its outcomes; raises like all decoders."""
    members = envelope_of(opened(content))
    return Manifest(shard=shard_of(members), provenance=provenance_of(members))


def decode_record(content: bytes) -> Record:
    """Decode a record encoded by ``encode_record``; raises like all decoders (``envelope``)."""
    file = opened(content)
    members = envelope_of(file)
    shard = shard_of(members)
    return Record(
        shard=shard,
        outcomes=outcomes_of(file, shard.task),
        provenance=provenance_of(members),
        **audit_of(members),
    )


def opened(content: bytes) -> pq.ParquetFile:
    """Return sealed Parquet, opened."""
    check_seal(content)
    try:
        return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"its footer cannot be read: {error}") from error


def envelope_of(file: pq.ParquetFile) -> Mapping[str, Any]:
    """Return the members of the envelope."""
    metadata = file.metadata.metadata or {}
    if METADATA_KEY not in metadata:
        raise DamagedError("its metadata has no entry of robench")
    return read_envelope(metadata[METADATA_KEY])


def outcomes_of(file: pq.ParquetFile, task: str) -> Outcomes:
    """Return all rows as outcomes of a task."""
    if task not in TASKS:
        raise NewerFormatError(f"its task {task!r} is unknown to this robench")
    fields = fields_of(TASKS[task].outcome)
    names = [name for name in file.schema_arrow.names if name not in LABELS]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DamagedError(f"it has columns twice: {', '.join(twice)}")
    try:
        table = file.read(columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"its pages cannot be read: {error}") from error
    if unknown := [name for name in names if name not in fields]:
        raise NewerFormatError(f"it has columns that this robench does not know: {', '.join(unknown)}")
    wrong = [name for name in names if table.schema.field(name).type != _ARROW_TYPES[fields[name].type]]
    if wrong:
        raise DamagedError(f"its columns have other types than the outcome's fields: {', '.join(wrong)}")
    try:
        columns = {name: _values(fields[name], table.column(name)) for name in names}
        return Outcomes(TASKS[task].outcome, columns, table.num_rows)
    except (ContractError, UnicodeError) as error:
        raise DamagedError(f"its outcomes are incomplete: {error}") from error


def _values(field: Field, column: pa.ChunkedArray) -> Values:
    # Directly from the buffers: pyarrow's conversions to numpy import pandas, which takes longer than a report.
    array = column.combine_chunks()
    length, (validity, *others) = len(array), array.buffers()
    missing = _bits(validity, array.offset, length) ^ True if array.null_count else None
    if field.type is str:
        return Values(np.array([text or "" for text in array.to_pylist()], np.dtypes.StringDType()), missing)
    if field.type is bool:
        return Values(_bits(others[0], array.offset, length), missing)
    if field.type is tuple:
        bounds = np.frombuffer(others[0] or bytes(4), np.int32)[array.offset : array.offset + length + 1]
        inner = array.values
        flat = np.frombuffer(inner.buffers()[1] or b"", np.int64)[inner.offset : inner.offset + len(inner)]
        return Values(lists_of([flat[start:stop] for start, stop in pairwise(bounds.tolist())]), missing)
    dtype = np.dtype(np.float64 if field.type is float else np.int64)
    numbers = np.frombuffer(others[0] or b"", dtype)[array.offset : array.offset + length]
    return Values(numbers if missing is None else np.where(missing, dtype.type(0), numbers), missing)


def _bits(buffer: pa.Buffer | None, offset: int, length: int) -> NDArray[np.bool_]:
    packed = np.frombuffer(buffer or b"", np.uint8)
    return np.unpackbits(packed, bitorder="little")[offset : offset + length].astype(np.bool_)


def table_of(record: Record) -> pa.Table:
    """Return the outcomes of a record as a table, beside its names.

    Raises:
        StoreError: the outcomes are not of the shard's task, or a text is not Unicode.
    """
    title, task, outcomes = record.shard.title, record.shard.task, record.outcomes
    if task not in TASKS:
        raise StoreError(f"{title} cannot be kept: no outcomes are declared for task {task!r}, only {[*TASKS]}")
    outcome_type = TASKS[task].outcome
    if outcomes.row_type is not outcome_type:
        raise StoreError(
            f"{title} cannot be kept: outcomes of {task} are {outcome_type.__name__}, got {outcomes.row_type.__name__}"
        )
    try:
        columns = columns_of(outcomes)
        labels = [_label(name, record) for name in LABELS]
    except (pa.ArrowException, UnicodeError) as error:
        raise StoreError(f"{title} cannot be kept: {error}") from error
    label_fields = [pa.field(name, _LABEL_TYPE) for name in LABELS]
    return pa.Table.from_arrays([*labels, *columns.columns], schema=pa.schema([*label_fields, *columns.schema]))


def columns_of(outcomes: Outcomes) -> pa.Table:
    """Return outcomes as a table with the columns of ``schema_of``; pyarrow refuses a text that is not Unicode."""
    schema = schema_of(outcomes.row_type)
    columns = [_array(outcomes.values(field.name), field.type, len(outcomes)) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _array(values: Values | None, arrow_type: pa.DataType, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, arrow_type)
    array = values.array.astype(object) if arrow_type == pa.string() else values.array
    if arrow_type == _LISTS:
        # Arrow takes no mask beside nested arrays.
        lists = [None if is_missing else each for each, is_missing in zip(array, values.mask, strict=True)]
        return pa.array(lists, arrow_type)
    return pa.array(array, arrow_type, mask=values.missing)


def _label(name: str, record: Record) -> pa.Array:
    shard, outcomes = record.shard, record.outcomes
    if name == "budget" and (budgets := outcomes.values("epsilon")) is not None:
        return _array(budgets, pa.string(), len(outcomes)).dictionary_encode()
    label = {
        "model": shard.model,
        "dataset": shard.dataset.name,
        "condition": shard.condition,
        "budget": shard.budget,
    }[name]
    return pa.DictionaryArray.from_arrays(
        pa.array([None if label is None else 0] * len(outcomes), pa.int32()),
        pa.array([] if label is None else [label], pa.string()),
    )
