"""Laws of the stores over arbitrary records, damages and orders of events."""

import dataclasses
import logging
import math
import random
import struct
import tempfile
from pathlib import Path
from types import NoneType, UnionType
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from examples import failure_of, header_of, outcomes_of, record_of
from robench.core.columns import Outcomes
from robench.core.outcomes import Outcome
from robench.core.records import Failure, Provenance, Record
from robench.core.shard import DatasetIdentity, ShardHeader
from robench.store import FolderStore, MemoryStore
from robench.store.envelope import decode_failure, encode_failure
from robench.store.parquet import decode_description, decode_record, encode_record
from robench.store.paths import Paths
from robench.store.sealed import DamagedError
from robench.tasks import TASKS

NUM_DAMAGES = 50

any_text = st.text(max_size=40)
# Envelopes also hold what Python makes of undecodable bytes (low surrogates); columns are UTF-8 and do not.
undecodable = st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"])
wild_text = any_text | st.text(undecodable | st.characters(codec="utf-8"), max_size=5)
whole = st.integers(min_value=-(2**63), max_value=2**63 - 1)
keys = st.text("0123456789abcdef", min_size=32, max_size=32)
any_float = st.floats(allow_nan=True, allow_infinity=True)

OF_TYPE: dict[object, st.SearchStrategy[object]] = {
    str: any_text,
    int: whole,
    bool: st.booleans(),
    float: any_float,
    tuple[int, ...]: st.lists(whole, max_size=5).map(tuple),
}


def any_outcome(outcome_type: type[Outcome]) -> st.SearchStrategy[Outcome]:
    """Outcomes of one type, with every field drawn from the whole range of its own."""
    hints = get_type_hints(outcome_type)
    return st.builds(
        outcome_type, **{field.name: _values(hints[field.name]) for field in dataclasses.fields(outcome_type)}
    )


def _values(hint: type) -> st.SearchStrategy[object]:
    options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return st.one_of([st.none() if option is NoneType else OF_TYPE[option] for option in options])


headers = st.builds(
    ShardHeader,
    key=keys,
    measurement_key=keys,
    perturbation_key=keys,
    checkpoint=wild_text,
    condition=wild_text,
    dataset=st.builds(DatasetIdentity, name=wild_text, fingerprint=keys, num_examples=whole),
    weights_digest=keys,
    task=st.sampled_from(sorted(TASKS)),
    seed=st.integers(),
    batch_size=whole,
    start=whole,
    stop=whole,
)
provenances = st.builds(
    Provenance,
    device=wild_text,
    versions=st.dictionaries(wild_text, wild_text, max_size=4),
    seconds=any_float,
    finished_at=wild_text,
    limit=st.none() | whole,
)
records = headers.flatmap(
    lambda shard: st.builds(
        Record,
        shard=st.just(shard),
        outcomes=st.lists(any_outcome(TASKS[shard.task].outcome), max_size=5).map(
            lambda rows: Outcomes.of(rows, TASKS[shard.task].outcome)
        ),
        provenance=provenances,
    )
)
failures = st.builds(Failure, shard=headers, error=wild_text, traceback=wild_text, provenance=provenances)


def exactly(value: object) -> object:
    """A form in which NaN equals NaN, zeros have their sign, and whole numbers are not floats."""
    if dataclasses.is_dataclass(value):
        return [exactly(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [exactly(item) for item in value]
    if isinstance(value, dict):
        return {name: exactly(item) for name, item in value.items()}
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack("<d", value))
    return (type(value).__name__, value)


@given(record=records)
def test_every_record_comes_back_exactly(record: Record) -> None:
    assert exactly(decode_record(encode_record(record))) == exactly(record)
    assert decode_description(encode_record(record)).shard == record.shard


@given(failure=failures)
def test_every_failure_comes_back_exactly(failure: Failure) -> None:
    assert exactly(decode_failure(encode_failure(failure))) == exactly(failure)


@given(record=records)
def test_encoding_is_a_function_of_the_record(record: Record) -> None:
    turned = dict(reversed(list(record.provenance.versions.items())))
    again = dataclasses.replace(record, provenance=dataclasses.replace(record.provenance, versions=turned))
    assert encode_record(again) == encode_record(record)
    assert encode_record(decode_record(encode_record(record))) == encode_record(record)


@given(record=records, data=st.data())
def test_no_changed_byte_goes_unnoticed(record: Record, data: st.DataObject) -> None:
    content = bytearray(encode_record(record))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedError):
        decode_record(bytes(content))


def some_record(number: int, num_queries: int = 1) -> Record:
    start = number * 25
    header = header_of(f"{number % 2:032x}", start, start + 25)
    return record_of(header, outcomes_of(header, num_queries=num_queries))


def damages(size: int, seed: int) -> list[tuple[str, int]]:
    generator = random.Random(seed)
    cuts = [("cut", generator.randrange(size)) for _ in range(NUM_DAMAGES)]
    return cuts + [("flip", generator.randrange(size * 8)) for _ in range(NUM_DAMAGES)]


@pytest.mark.parametrize("read_by_key", [True, False])
def test_after_random_cuts_and_flips_a_record_is_whole_or_set_aside_and_never_other(
    tmp_path: Path, read_by_key: bool
) -> None:
    store = FolderStore(tmp_path)
    whole_record, other = some_record(0), some_record(2)
    store.put(other)
    path = Paths(tmp_path).record(whole_record.shard)
    content = encode_record(whole_record)
    for count, (damage, place) in enumerate(damages(len(content), seed=int(read_by_key)), start=1):
        broken = bytearray(content)
        if damage == "cut":
            del broken[place:]
        else:
            broken[place // 8] ^= 1 << place % 8
        path.write_bytes(broken)
        if read_by_key:
            assert list(store.records_of([whole_record.shard.measurement_key, other.shard.measurement_key])) == [other]
        assert store.num_lost == (count if read_by_key else count - 1)
        assert list(store.records(lambda shard: True)) == [other]
        assert not path.exists()
        assert len(list((tmp_path / "damaged").iterdir())) == count


class FolderAgainstMemory(RuleBasedStateMachine):
    """Whatever happens in whatever order, a folder holds what the plain store in memory holds."""

    numbers = st.integers(0, 5)

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.folder = FolderStore(self.place.name)
        self.memory = MemoryStore()
        logging.getLogger("robench.store").setLevel(logging.ERROR)

    def teardown(self) -> None:
        logging.getLogger("robench.store").setLevel(logging.NOTSET)
        self.place.cleanup()

    @rule(number=numbers, num_queries=st.sampled_from([1, 2]))
    def put_a_record(self, number: int, num_queries: int) -> None:
        for store in (self.folder, self.memory):
            store.put(some_record(number, num_queries))

    @rule(number=numbers, error=st.sampled_from(["out of memory", "killed"]))
    def put_a_failure(self, number: int, error: str) -> None:
        failure = failure_of(some_record(number).shard, error)
        for store in (self.folder, self.memory):
            store.put(failure)

    @rule(number=numbers, cut=st.integers(0, 200))
    def damage_a_record(self, number: int, cut: int) -> None:
        path = Paths(self.folder.path).record(some_record(number).shard)
        if path.exists():
            path.write_bytes(path.read_bytes()[cut + 1 :])
            list(self.folder.records(lambda shard: True))
            self.memory = _without(self.memory, some_record(number).shard.key)

    @rule()
    def another_process_takes_over(self) -> None:
        self.folder = FolderStore(self.folder.path)
        self.folder.check_writable()

    @invariant()
    def both_hold_the_same(self) -> None:
        assert self.folder.keys() == self.memory.keys()
        assert list(self.folder.failures()) == list(self.memory.failures())
        for select in (lambda shard: True, _is_of_an_even_measurement):
            assert list(self.folder.records(select)) == list(self.memory.records(select))


def _is_of_an_even_measurement(shard: ShardHeader) -> bool:
    return int(shard.measurement_key, 16) == 0


def _without(memory: MemoryStore, key: str) -> MemoryStore:
    smaller = MemoryStore()
    held: list[Record | Failure] = [*memory.records(lambda shard: True), *memory.failures()]
    for kept in held:
        if kept.shard.key != key:
            smaller.put(kept)
    return smaller


TestFolderAgainstMemory = FolderAgainstMemory.TestCase
TestFolderAgainstMemory.settings = settings(max_examples=15, stateful_step_count=15)
