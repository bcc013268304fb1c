"""Records as Parquet: a column for each field of the outcome, the envelope as JSON in the metadata.

The columns follow from the type hints of the outcome's dataclass, so that a new task needs nothing here. Any reader of
Parquet opens the files; robench itself believes them only while their seal holds (``seal``). Equal records give equal
bytes under one release of pyarrow, which names itself in the file.
"""

from __future__ import annotations

import types
import typing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.core.errors import StoreError
from robench.core.outcomes import OUTCOME_TYPES
from robench.core.records import Record
from robench.store.envelope import build, envelope_text, flags_of, provenance_of, read_envelope, shard_of
from robench.store.seal import DamagedError, NewerFormatError, check_seal, seal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.core.outcomes import Outcome
    from robench.core.shard import ShardHeader

METADATA_KEY = b"robench"

_ARROW_TYPES: Mapping[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
# What a column takes without a change of value; pyarrow alone would cut 1.5 to the integer 1.
_TAKEN: Mapping[pa.DataType, tuple[type, ...]] = {
    pa.string(): (str,),
    pa.bool_(): (bool,),
    pa.int64(): (int,),
    pa.float64(): (float, int),
}


def schema_of(outcome_type: type[Outcome]) -> pa.Schema:
    """Return the columns of an outcome: text, whole numbers, truth values and floats, each optional or not.

    Raises:
        TypeError: a field has another type.
    """
    hints = typing.get_type_hints(outcome_type)
    return pa.schema([_column(outcome_type, name, hint) for name, hint in hints.items()])


def encode_record(record: Record) -> bytes:
    """Return a record as sealed Parquet.

    Raises:
        StoreError: an outcome is not of the shard's task, or a value does not fit its field.
    """
    # Left out where there are none, so that records that were kept before are the bytes that they were.
    flags = {"flags": [asdict(flag) for flag in record.flags]} if record.flags else {}
    text = envelope_text(record.shard, record.provenance, **flags)
    table = _table(record)
    sink = pa.BufferOutputStream()
    # Neither statistics nor a copy of the schema: both would repeat values that the seal has to cover anyway.
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA_KEY.decode(): text})
    return seal(sink.getvalue().to_pybytes())


def decode_header(content: bytes) -> ShardHeader:
    """Return which shard a file's record is of, without reading its outcomes.

    Raises:
        DamagedError: the bytes are not those that were written.
        NewerFormatError: they are, by a later robench.
    """
    return shard_of(_envelope(content))


def decode_record(content: bytes) -> Record:
    """Return the record that ``encode_record`` encoded; errors as of ``decode_header``."""
    members = _envelope(content)
    shard = shard_of(members)
    return Record(
        shard=shard,
        outcomes=_outcomes(content, shard.task),
        provenance=provenance_of(members),
        flags=flags_of(members),
    )


def _envelope(content: bytes) -> Mapping[str, Any]:
    check_seal(content)
    try:
        metadata = pq.read_metadata(pa.BufferReader(content)).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"its footer cannot be read: {error}") from error
    if METADATA_KEY not in metadata:
        raise DamagedError("its metadata has no entry of robench")
    return read_envelope(metadata[METADATA_KEY])


def _outcomes(content: bytes, task: str) -> tuple[Outcome, ...]:
    if task not in OUTCOME_TYPES:
        raise NewerFormatError(f"its task {task!r} is unknown to this robench")
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        table = file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"its pages cannot be read: {error}") from error
    expected = {field.name: field.type for field in schema_of(OUTCOME_TYPES[task])}
    wrong = [field.name for field in table.schema if expected.get(field.name, field.type) != field.type]
    if wrong:
        raise DamagedError(f"its columns have other types than the outcome's fields: {', '.join(wrong)}")
    return _built(OUTCOME_TYPES[task], table.to_pylist())


def _built(outcome_type: type[Outcome], rows: list[dict[str, Any]]) -> tuple[Outcome, ...]:
    for row in rows[:1]:
        # All rows have the same fields, so that the first speaks for them.
        build(outcome_type, row)
    return tuple(outcome_type(**row) for row in rows)


def _table(record: Record) -> pa.Table:
    title, task = record.shard.title, record.shard.task
    outcome_type = OUTCOME_TYPES.get(task)
    if outcome_type is None:
        raise StoreError(f"{title} cannot be kept: no outcomes are declared for task {task!r}, only {[*OUTCOME_TYPES]}")
    if strangers := {type(outcome).__name__ for outcome in record.outcomes if type(outcome) is not outcome_type}:
        raise StoreError(
            f"{title} cannot be kept: outcomes of {task} are {outcome_type.__name__}, got {sorted(strangers)}"
        )
    schema = schema_of(outcome_type)
    columns = [_values(title, field, [getattr(outcome, field.name) for outcome in record.outcomes]) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _values(title: str, field: pa.Field, values: Sequence[object]) -> pa.Array:
    for value in values:
        if not _fits(value, field):
            kind = "" if value is None else f" of type {type(value).__name__}"
            raise StoreError(f"{title} cannot be kept: {field.name} must be {_wanted(field)}, got {value!r}{kind}")
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise StoreError(f"{title} cannot be kept: {field.name} must be {_wanted(field)}: {error}") from error


def _fits(value: object, field: pa.Field) -> bool:
    if value is None:
        return bool(field.nullable)
    taken = _TAKEN[field.type]
    return isinstance(value, taken) and (bool in taken or not isinstance(value, bool))


def _wanted(field: pa.Field) -> str:
    return f"{field.type} or None" if field.nullable else str(field.type)


def _column(outcome_type: type[Outcome], name: str, hint: object) -> pa.Field:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    wanted = [option for option in options if option is not type(None)]
    if len(wanted) != 1 or wanted[0] not in _ARROW_TYPES:
        raise TypeError(f"{outcome_type.__name__}.{name} must be str, bool, int or float, or one of them or None")
    return pa.field(name, _ARROW_TYPES[wanted[0]], nullable=len(options) > 1)
