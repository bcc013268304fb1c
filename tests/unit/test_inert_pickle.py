"""Pickles become inert values: plain values as pickle reads them, and nothing is imported, called or compared."""

from __future__ import annotations

import builtins
import collections
import contextlib
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robench.models import inert_pickle
from robench.models.inert_pickle import (
    MAX_BYTES,
    InertObject,
    Name,
    PickleProblem,
    SavedStorage,
    SavedTensor,
    unpickled,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(SCALARS, inner, max_size=4),
        st.sets(SCALARS, max_size=4),
    ),
    max_leaves=12,
)


@dataclass
class Plain:
    """A class of which an object has a state."""

    numbers: list[int]
    inner: object = None


class WithState:
    """Its state would be handed to code."""

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}

    def __setstate__(self, state: object) -> None:
        raise AssertionError("run")


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a, self.b = 1, [2]


class Called:
    """An object that a pickle makes by any call."""

    def __init__(self, function: Callable[..., object], *arguments: object, state: object = None) -> None:
        self.reduced = (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.reduced


def problem_of(content: bytes) -> str:
    """Return the message about a content, empty if there is none; any other error is a failure."""
    try:
        unpickled(content)
    except PickleProblem as error:
        return str(error)
    return ""


@given(VALUES, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_those_of_pickle(value: object, protocol: int) -> None:
    # Bytes have no instruction before protocol 3: a call of a codec makes them.
    assert unpickled(pickle.dumps(value, protocol)) == value or protocol == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_of_any_protocol(protocol: int) -> None:
    shared = [1, 2.5, "ü", None, True]
    value = {"a": shared, "b": (shared, 1 << 70), "c": {3: ()}, "d": (1, 2, 3, 4), "e": -1}
    found = unpickled(pickle.dumps(value, protocol))
    assert found == value
    assert found["a"] is found["b"][0]


def test_an_ordered_dict_is_a_dict_in_its_order() -> None:
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    for protocol in (2, 4):
        found = unpickled(pickle.dumps(ordered, protocol))
        assert type(found) is dict
        assert list(found.items()) == [("b", 1), ("a", 2)]


def test_sets_of_all_protocols_are_sets() -> None:
    for protocol in (2, 4):
        assert unpickled(pickle.dumps([{1, "a"}, frozenset({2})], protocol)) == [{1, "a"}, {2}]


@pytest.mark.parametrize("protocol", [2, 4])
def test_an_object_is_its_class_s_name_and_its_state(protocol: int) -> None:
    found = unpickled(pickle.dumps(Plain([1, 2], Plain([3])), protocol))
    assert type(found) is InertObject
    assert found.of == Name(__name__, "Plain")
    assert found.state["numbers"] == [1, 2]
    assert found.state["inner"].state == {"numbers": [3], "inner": None}


def test_a_state_of_slots_is_one_state() -> None:
    assert unpickled(pickle.dumps(Slotted(), 2)).state == {"a": 1, "b": [2]}


def test_a_state_is_recorded_and_handed_to_nobody() -> None:
    assert unpickled(pickle.dumps(WithState(), 2)).state == {"a": 1}


def test_a_state_that_is_no_dict_and_items_of_foreign_objects_are_dropped() -> None:
    assert unpickled(pickle.dumps(Called(print, "a", state=(1, 2, 3)), 2)).state == {}
    found = unpickled(pickle.dumps([collections.defaultdict(int, a=1), collections.deque([1, 2])], 2))
    assert [str(each.of) for each in found] == ["collections.defaultdict", "collections.deque"]
    assert [each.state for each in found] == [{}, {}]


def test_a_class_or_function_is_its_name() -> None:
    assert unpickled(pickle.dumps([Plain, len], 4)) == [Name(__name__, "Plain"), Name("builtins", "len")]


class TestNothingIsRun:
    @pytest.fixture
    def marker(self, tmp_path: Path) -> Path:
        return tmp_path / "marker"

    @pytest.fixture(params=["reduce", "state", "key", "list", "setstate", "arguments"])
    def hostile(self, request: pytest.FixtureRequest, marker: Path) -> object:
        trap = Called(builtins.eval, f"open({str(marker)!r}, 'w')")
        places: dict[str, object] = {
            "reduce": trap,
            "state": Plain([], trap),
            "key": {trap: 1},
            "list": [1, (trap,)],
            "setstate": Called(builtins.eval, "0", state={"__setstate__": trap, "__dict__": trap}),
            "arguments": Called(builtins.eval, trap),
        }
        return places[request.param]

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_call_is_not_made(self, hostile: object, marker: Path, protocol: int) -> None:
        content = pickle.dumps(hostile, protocol)
        unpickled(content)
        assert not marker.exists()
        # The trap is a trap.
        with contextlib.suppress(Exception):
            pickle.loads(content)
        assert marker.exists()

    def test_a_module_is_not_imported(self, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "trap_on_import.py").write_text(f"open({str(marker)!r}, 'w')")
        monkeypatch.syspath_prepend(tmp_path)
        assert unpickled(b"ctrap_on_import\nName\n.") == Name("trap_on_import", "Name")
        assert unpickled(b"(itrap_on_import\nName\n.").of == Name("trap_on_import", "Name")
        assert "trap_on_import" not in sys.modules
        assert not marker.exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"cbuiltins\neval\n(S'1'\ntR.",
            b"cposix\nsystem\n(S'true'\ntR.",
            b"(S'true'\niposix\nsystem\n.",
            b"(cposix\nsystem\nS'true'\no.",
            b"\x80\x02cposix\nsystem\n(S'true'\nt\x81.",
            b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85}\x92.",
        ],
    )
    def test_every_instruction_that_calls_makes_an_inert_object(self, content: bytes) -> None:
        assert type(unpickled(content)) is InertObject

    def test_state_of_a_name_changes_nothing(self) -> None:
        # What a file sets on a class that it names would be found by all others.
        assert unpickled(b"ccollections\nOrderedDict\n}S'a'\nI1\nsb.") == Name("collections", "OrderedDict")
        assert not hasattr(collections.OrderedDict, "a")


class TestTensors:
    def test_a_tensor_refers_to_its_storage(self) -> None:
        storage = b"(S'storage'\nctorch\nFloatStorage\nS'7'\nS'cuda:0'\nI6\ntQ"
        # Offset, size, stride, whether it requires a gradient, and hooks.
        others = b"I0\n(I2\nI3\nt(I3\nI1\nt\x89ccollections\nOrderedDict\n(tR"
        tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + others + b"tR"
        found = unpickled(b"ctorch._utils\n_rebuild_parameter\n(" + tensor + b"\x88NtR.")
        assert type(found) is SavedTensor
        assert (found.offset, found.size, found.stride) == (0, (2, 3), (3, 1))
        assert (found.storage.kind, found.storage.key, found.storage.count) == ("FloatStorage", "7", 6)

    @pytest.mark.parametrize(
        "reference",
        [
            b"S'a'\n",
            b"(S'storage'\nt",
            b"(S'module'\nctorch\nFloatStorage\nS'7'\nS'cpu'\nI6\nt",
            b"(S'storage'\nS'FloatStorage'\nS'7'\nS'cpu'\nI6\nt",
            b"(S'storage'\ncos\nFloatStorage\nS'7'\nS'cpu'\nI6\nt",
            b"(S'storage'\nctorch\nFloatStorage\nI7\nS'cpu'\nI6\nt",
            b"(S'storage'\nctorch\nFloatStorage\nS'7'\nS'cpu'\nI-6\nt",
            b"(S'storage'\nctorch\nFloatStorage\nS'7'\nS'cpu'\nI01\nt",
        ],
    )
    def test_other_references_are_refused(self, reference: bytes) -> None:
        with pytest.raises(PickleProblem, match="refers to something outside it that is no storage"):
            unpickled(reference + b"Q.")

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"ctorch._utils\n_rebuild_tensor_v2\n(I1\nI2\nI3\nI4\ntR.", "makes a tensor of a int, wanted a storage"),
            (b"ctorch._utils\n_rebuild_tensor_v2\n(I1\ntR.", "is damaged .TypeError"),
            (b"ctorch._utils\n_rebuild_parameter\n(]tR.", "makes a parameter of a list, wanted a tensor"),
            (b"ccollections\nOrderedDict\n(I1\ntR.", "makes a dict of something else than pairs"),
            (b"ccollections\nOrderedDict\n((I1\nltR.", "makes a dict of something else than pairs"),
            (b"cbuiltins\nset\n(I1\ntR.", "makes a set of a int"),
        ],
    )
    def test_wrong_arguments_are_refused(self, content: bytes, problem: str) -> None:
        with pytest.raises(PickleProblem, match=problem):
            unpickled(content)

    def test_nodes_are_compared_by_identity(self) -> None:
        # Their fields may contain one another.
        storage = SavedStorage("FloatStorage", "0", 1)
        assert InertObject(Name("a", "b")) != InertObject(Name("a", "b"))
        assert SavedTensor(storage, 0, (), ()) != SavedTensor(storage, 0, (), ())


class TestBounds:
    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "is damaged"),
            (b"N", "is damaged"),
            (b".", "is damaged .IndexError"),
            (b"I1\n0.", "is damaged .IndexError"),
            (b"t.", "is damaged .IndexError"),
            (b"g7\n.", "is damaged .KeyError"),
            (b"X\xff\xff\xff\x7fab.", "is damaged .ValueError"),
            (b"\x80\x02}N.N", "MATCHES"),
            (b"I1\nI2\na.", "adds items to a int"),
            (b"]I1\nI2\ns.", "sets items of a list"),
            (b"(I1\nd.", "is damaged .ValueError"),
            (b"I1\n)R.", "calls a int"),
            (b"cos\nsystem\nI1\nR.", "calls os.system without a tuple of arguments"),
            (b"I1\nI2\n\x93.", "has a name that is no text"),
            (b"\x82\x01.", "has the instruction EXT1"),
            (b"Pkey\n.", "has the instruction PERSID"),
            (b"\x80\x05\x97.", "has the instruction NEXT_BUFFER"),
            (b"cnothing\n\n.", "MATCHES"),
            (b"S'\\xzz'\n.", "is damaged"),
            (b"L" + b"9" * 5_000 + b"L\n.", "is damaged .ValueError"),
        ],
    )
    def test_damaged_content_is_a_problem_and_no_other_error(self, content: bytes, problem: str) -> None:
        if problem == "MATCHES":
            unpickled(content)
        else:
            with pytest.raises(PickleProblem, match=f"^its pickle {problem}"):
                unpickled(content)

    def test_a_large_number_of_a_memo_takes_no_memory(self) -> None:
        assert unpickled(b"]r\xff\xff\xff\xff0j\xff\xff\xff\xff.") == []

    def test_more_instructions_than_any_module_has_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inert_pickle, "MAX_INSTRUCTIONS", 100)
        assert unpickled(b"N0" * 49 + b"N.") is None
        with pytest.raises(PickleProblem, match="its pickle has more than 100 instructions"):
            unpickled(b"N0" * 50 + b"N.")

    @pytest.mark.parametrize(
        "again",
        [
            b"cbuiltins\nset\ng0\n\x85R0",
            b"ccollections\nOrderedDict\ng2\n\x85R0",
            b"(cbuiltins\nset\ng0\no0",
            b"cos\nsystem\ng1\nR0",
            b"cos\nsystem\n)\x81g3\nb0",
        ],
    )
    def test_items_that_are_copied_again_and_again_count(self, monkeypatch: pytest.MonkeyPatch, again: bytes) -> None:
        monkeypatch.setattr(inert_pickle, "MAX_INSTRUCTIONS", 2_000)
        items = b"".join(f"I{number}\n".encode() for number in range(100))
        pairs = b"".join(f"(I{number}\nNt".encode() for number in range(100))
        entries = b"".join(f"I{number}\nN".encode() for number in range(100))
        # A list, a tuple, a list of pairs and a dict.
        made = b"(" + items + b"lp0\n0(" + items + b"tp1\n0(" + pairs + b"lp2\n0(" + entries + b"dp3\n0"
        assert unpickled(made + again + b"N.") is None
        with pytest.raises(PickleProblem, match="more than 2,000 instructions, or items that they copy"):
            unpickled(made + again * 20 + b"N.")

    def test_more_bytes_are_refused_before_they_are_read(self) -> None:
        with pytest.raises(PickleProblem, match=r"its pickle has 16,777,217 bytes, at most 16,777,216 are read"):
            unpickled(b"." * (MAX_BYTES + 1))

    def test_values_that_contain_one_another_are_neither_walked_nor_hashed(self) -> None:
        laughs = b")" + b"2\x86" * 200
        assert type(unpickled(laughs + b".")) is tuple
        assert unpickled(b"}" + laughs + b"I1\nsI2\nI3\ns.") == {2: 3}
        assert unpickled(b"cbuiltins\nset\n(]" + laughs + b"aI4\natR.") == {4}
        assert type(unpickled(b"\x80\x04\x8f(" + laughs + b"\x90.")) is set
        assert unpickled(b"((" + laughs + b"I1\nd" + b"I2\nt.") == ({}, 2)

    def test_a_value_may_contain_itself(self) -> None:
        found = unpickled(b"]p0\ng0\na.")
        assert found[0] is found

    @given(st.data())
    def test_any_change_of_any_byte_gives_a_value_or_a_problem(self, data: st.DataObject) -> None:
        content = bytearray(pickle.dumps([Plain([1]), {"a": (1, 2.0)}, {3}, collections.OrderedDict(b=1)], 2))
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        assert "\n" not in problem_of(bytes(content))

    @given(st.binary(max_size=60))
    def test_any_bytes_give_a_value_or_a_problem(self, content: bytes) -> None:
        assert len(problem_of(content)) < 400
