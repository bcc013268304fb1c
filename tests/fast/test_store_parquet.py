"""Records as Parquet: nothing changes on the way there and back, and nothing that would change is taken."""

import dataclasses
import io
import math
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
import pytest
from presence import present

from examples import HEADER, PROVENANCE, failure_of, outcome_of, record_of
from robench.core.errors import ContractError, StoreError
from robench.core.outcomes import Outcome
from robench.core.records import Record
from robench.core.shard import ShardHeader
from robench.store import envelope, parquet
from robench.store.envelope import decode_failure, encode_failure
from robench.store.parquet import LABELS, METADATA_KEY, decode_description, decode_record, encode_record, schema_of
from robench.store.sealed import DamagedError, NewerFormatError, seal
from robench.tasks import TASKS, Task
from robench.tasks.classification import ClassificationOutcome

LISTS = pa.list_(pa.field("element", pa.int64(), nullable=False))
SHARD = dataclasses.replace(HEADER, batch_size=100, start=100, stop=103)
OUTCOME = outcome_of(
    "digits-00100", correct=False, linf=8 / 255, l2=0.1 + 0.2, l1=None, target=3, prediction=8, confidence=1 / 3,
    loss_nats=2.5,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EveryKind(Outcome):
    """An outcome with a field of each type, each also optional."""

    text: str
    maybe_text: str | None = None
    count: int = 0
    maybe_count: int | None = None
    truth: bool = False
    maybe_truth: bool | None = None
    share: float = 0.0
    maybe_share: float | None = None
    numbers: tuple[int, ...] = ()
    maybe_numbers: tuple[int, ...] | None = None


@pytest.fixture
def every_kind(monkeypatch: pytest.MonkeyPatch) -> ShardHeader:
    task = Task(name="every-kind", title="", outcome=EveryKind, implementation="")
    monkeypatch.setitem(TASKS.builtin, "every-kind", task)
    return dataclasses.replace(SHARD, task="every-kind")


def record(*outcomes: Outcome, shard: ShardHeader = SHARD) -> Record:
    return record_of(shard, outcomes or (OUTCOME,))


def changed(**fields: Any) -> Record:
    return record(dataclasses.replace(OUTCOME, **fields))


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


@pytest.mark.parametrize("outcome_type", [task.outcome for task in TASKS.values()])
def test_every_declared_outcome_has_a_column_for_each_of_its_fields(outcome_type: type[Outcome]) -> None:
    assert schema_of(outcome_type).names == [field.name for field in dataclasses.fields(outcome_type)]


def test_columns_have_the_types_of_the_fields_and_are_nullable_where_those_are_optional() -> None:
    found = {field.name: (field.type, field.nullable) for field in schema_of(EveryKind)}
    kinds = {"text": pa.string(), "count": pa.int64(), "truth": pa.bool_(), "share": pa.float64(), "numbers": LISTS}
    wanted = {name: (kind, False) for name, kind in kinds.items()}
    wanted |= {f"maybe_{name}": (kind, True) for name, kind in kinds.items()}
    assert wanted.keys() == EveryKind.__annotations__.keys()
    assert {name: found[name] for name in wanted} == wanted
    assert found["example_id"] == (pa.string(), False)


@pytest.mark.parametrize("hint", [bytes, int | str, list[int], tuple, tuple[int, int], None, complex | None])
def test_a_field_of_another_type_is_named(hint: object) -> None:
    strange = dataclasses.make_dataclass("Strange", [("field", hint)])
    with pytest.raises(TypeError, match=r"Strange\.field must be str, bool, int, float or tuple"):
        schema_of(strange)


def test_a_record_comes_back_with_outcomes_header_and_provenance_or_its_header_alone() -> None:
    kept = decode_record(encode_record(record()))
    assert kept == record()
    assert type(kept.outcomes[0].linf) is float
    described = decode_description(encode_record(record()))
    assert (described.shard, described.provenance) == (SHARD, PROVENANCE)
    empty = record_of(SHARD, ())
    assert decode_record(encode_record(empty)) == empty


def test_absent_values_stay_absent_and_present_ones_present(every_kind: ShardHeader) -> None:
    absent = EveryKind(example_id="a", text="")
    present = EveryKind(
        example_id="b", text="x", maybe_text="", count=-(2**63), maybe_count=0, truth=True, maybe_truth=False,
        share=-0.0, maybe_share=0.0, numbers=(2**62, -1), maybe_numbers=(),
    )  # fmt: skip
    kept = decode_record(encode_record(record(absent, present, absent, shard=every_kind)))
    assert repr(list(kept.outcomes)) == repr([absent, present, absent])


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1 / 3, 2.0**-1074, 0]
)
def test_floats_come_back_bit_for_bit_and_are_never_absent(value: float) -> None:
    (kept,) = decode_record(encode_record(changed(loss_nats=value, linf=value, l2=None))).outcomes
    assert kept.l2 is None
    assert isinstance(kept, ClassificationOutcome)
    assert bits(kept.loss_nats) == bits(value)
    assert bits(present(kept.linf)) == bits(value)


@pytest.mark.parametrize(
    "example_id", ["", "ñandú-😀", "a\x00b", "line\nbreak", '","format":9,"sha256":"', "n" * 10_000]
)
def test_any_text_is_an_example_id(example_id: str) -> None:
    (kept,) = decode_record(encode_record(changed(example_id=example_id))).outcomes
    assert kept.example_id == example_id


def test_equal_records_give_equal_bytes_whatever_order_their_versions_came_in() -> None:
    turned = dataclasses.replace(PROVENANCE, versions=dict(reversed(list(PROVENANCE.versions.items()))))
    assert list(turned.versions) != list(PROVENANCE.versions)
    again = record_of(dataclasses.replace(SHARD), (dataclasses.replace(OUTCOME),), turned)
    assert encode_record(again) == encode_record(record())


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("target", 1.5, "int, got 1.5 of type float"),
        ("target", 1.0, "int, got 1.0"),
        ("target", True, "int, got True of type bool"),
        ("target", None, "int, got None"),
        ("target", 2**63, "int"),
        ("prediction", "3", "int, got '3' of type str"),
        ("correct_top1", 1, "bool, got 1"),
        ("correct_top1", None, "bool, got None"),
        ("correct_top5", 1, "bool or None, got 1"),
        ("confidence", True, "float or None, got True"),
        ("linf", "0.1", "float or None, got '0.1'"),
        ("linf", 2**60 + 1, "float or None"),
        ("example_id", b"id", "str, got b'id'"),
        ("example_id", None, "str, got None"),
        ("example_id", "\ud800", "str"),
    ],
)
def test_a_value_that_would_change_or_be_lost_is_refused_with_its_field(field: str, value: object, wanted: str) -> None:
    with pytest.raises(ContractError) as refused:
        changed(**{field: value})
    assert str(refused.value).startswith(f"{field} must be {wanted}")


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (record(EveryKind(example_id="a", text="")), "outcomes of classification are ClassificationOutcome, got Every"),
        (record(shard=dataclasses.replace(SHARD, task="telepathy")), "no outcomes are declared for task 'telepathy'"),
        (record(shard=dataclasses.replace(SHARD, seed=b"0")), "is not JSON"),  # type: ignore[arg-type]
    ],
    ids=["another task", "no task", "no JSON"],
)
def test_a_record_that_cannot_be_kept_is_refused(refused: Record, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        encode_record(refused)
    with pytest.raises(ContractError, match="outcomes must all be ClassificationOutcome, got EveryKind"):
        record(OUTCOME, EveryKind(example_id="a", text=""))


def test_any_reader_of_parquet_finds_the_columns_and_the_envelope() -> None:
    table = pq.read_table(pa.BufferReader(encode_record(record())))
    assert table.column("prediction").to_pylist() == [8]
    assert table.column_names[:4] == ["model", "dataset", "condition", "budget"]
    labels = {"model": "digits-vit", "dataset": "digits", "condition": "pgd", "budget": None}
    assert table.select(range(4)).to_pylist() == [labels]
    assert b'"checkpoint":"digits-vit"' in table.schema.metadata[METADATA_KEY]
    assert list(table.schema.metadata) == [METADATA_KEY]


def with_a_broken_page(content: bytes, column: int = 0) -> bytes:
    chunk = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(len(LABELS) + column)
    broken = bytearray(content)
    broken[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    return bytes(broken)


def test_pages_carry_checksums_that_other_readers_can_verify() -> None:
    content = encode_record(record(*[dataclasses.replace(OUTCOME, example_id=f"id-{i}" * 50) for i in range(50)]))
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(with_a_broken_page(content)), page_checksum_verification=True).read()


def test_pages_are_verified_on_reading_even_where_a_seal_would_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = with_a_broken_page(encode_record(record()), schema_of(ClassificationOutcome).names.index("loss_nats"))
    monkeypatch.setattr(parquet, "check_seal", lambda content: None)
    with pytest.raises(DamagedError, match="its pages cannot be read"):
        decode_record(broken)


def resealed(table: pa.Table, metadata: dict[str, str]) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    return seal(sink.getvalue())


def table() -> pa.Table:
    return pq.read_table(pa.BufferReader(encode_record(record()))).replace_schema_metadata()


def with_text(table: pa.Table, key: str = "robench") -> bytes:
    return resealed(table, {key: envelope.envelope_text(SHARD, PROVENANCE)})


def with_targets(values: pa.Array) -> pa.Table:
    found = table()
    return found.set_column(found.schema.get_field_index("target"), "target", values)


UNREADABLE: dict[str, tuple[Callable[[], bytes], type[Exception], str]] = {
    "no Parquet": (lambda: encode_failure(failure_of(SHARD)), DamagedError, "its footer cannot be read"),
    "another key": (lambda: with_text(table(), "other"), DamagedError, "no entry of robench"),
    "another type": (lambda: with_text(with_targets(pa.array(["3"]))), DamagedError, "other types .* fields: target"),
    "a column less": (lambda: with_text(table().drop_columns(["target"])), DamagedError, "incomplete: target must be"),
    "a column more": (lambda: with_text(table().append_column("margin", [[0.5]])), NewerFormatError, "margin"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_sealed_and_no_record_is_damaged_or_newer(name: str) -> None:
    content, error, message = UNREADABLE[name]
    with pytest.raises(error, match=message):
        decode_record(content())


@pytest.mark.parametrize("added", ["l2", "num_clamped"])
def test_a_field_that_was_added_with_a_default_has_it_in_older_files(added: str) -> None:
    older = with_text(table().drop_columns([added]))
    assert list(decode_record(older).outcomes) == [dataclasses.replace(OUTCOME, **{added: None})]


def test_a_header_says_that_a_model_is_coupled_and_is_otherwise_as_before_it_could() -> None:
    coupled = dataclasses.replace(SHARD, coupled=True)
    assert decode_record(encode_record(record(shard=coupled))).shard == coupled
    assert decode_failure(encode_failure(failure_of(coupled))).shard == coupled
    assert "coupled" not in envelope.envelope_text(SHARD, PROVENANCE)
    assert decode_description(encode_record(record())).shard == SHARD
    members = envelope.members_of(SHARD)
    assert envelope.shard_of({"shard": {**members, "coupled": True}}) == coupled


def test_an_unknown_task_is_of_a_newer_robench_but_its_header_can_be_read(every_kind: ShardHeader) -> None:
    content = encode_record(record(EveryKind(example_id="a", text="x"), shard=every_kind))
    del TASKS.builtin["every-kind"]  # type: ignore[attr-defined]  # the mapping is a dict; the fixture restores it
    assert decode_description(content).shard.task == "every-kind"
    with pytest.raises(NewerFormatError, match="every-kind"):
        decode_record(content)


def test_an_envelope_member_that_is_unknown_is_newer_and_one_that_lacks_is_damaged() -> None:
    text = envelope.envelope_text(SHARD, PROVENANCE)
    members = envelope.read_envelope(text)
    with pytest.raises(NewerFormatError, match="ShardHeader has fields that this robench does not know: split"):
        envelope.shard_of({**members, "shard": {**members["shard"], "split": "test"}})
    with pytest.raises(DamagedError, match="ShardHeader is incomplete"):
        envelope.shard_of({**members, "shard": {"dataset": members["shard"]["dataset"]}})
    with pytest.raises(DamagedError, match="lacks 'shard'"):
        envelope.shard_of({})


@pytest.mark.parametrize("text", ["", "{", "[]", "1", b"\xff\xfe"])
def test_an_envelope_that_is_no_json_object_is_damaged(text: str | bytes) -> None:
    with pytest.raises(DamagedError, match=r"its envelope is not (a JSON object|JSON)"):
        envelope.read_envelope(text)


def test_a_failure_comes_back_with_any_text() -> None:
    failure = dataclasses.replace(failure_of(SHARD, 'é "quoted"\n\ud800'), traceback="\x1b[31m\x00")
    assert decode_failure(encode_failure(failure)) == failure
    assert encode_failure(failure) == encode_failure(dataclasses.replace(failure))


def test_a_failure_that_lacks_its_error_is_damaged() -> None:
    with pytest.raises(DamagedError, match="Failure is incomplete"):
        decode_failure(seal(envelope.envelope_text(SHARD, PROVENANCE).encode()))


def test_nothing_is_parsed_before_its_seal_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_record(record())
    monkeypatch.setattr(parquet, "pq", None)
    with pytest.raises(DamagedError, match="changed after they were written"):
        decode_record(content[:-1] + b"\x00")


class TestTensorsDigest:
    """Older records have none, and are read and written as before."""

    def test_it_comes_back(self) -> None:
        shard = dataclasses.replace(SHARD, tensors_digest="e" * 64)
        record = record_of(shard)
        found = decode_record(encode_record(record)).shard
        assert (found, found.weights) == (shard, "e" * 64)

    def test_records_without_it_keep_their_bytes(self) -> None:
        content = encode_record(record_of(SHARD))
        assert b"tensors_digest" not in content
        found = decode_record(content).shard
        assert (found.tensors_digest, found.weights) == (None, SHARD.weights_digest)
