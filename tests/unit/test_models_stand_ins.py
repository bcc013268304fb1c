"""What lies beside weights loads without anything of it being imported or run, and never counts as weights."""

import argparse
import builtins
import collections
import enum
import functools
import importlib
import io
import os
import pathlib
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from robench.core.errors import WeightsError
from robench.models.state_files import MAX_NAMES, StandIn, StandIns, load_state

STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}
TRAP = """
import pathlib
MARKER = pathlib.Path({marker!r})
(MARKER / "imported").mkdir()

class Trap:
    def __new__(cls, *arguments):
        (MARKER / "made").mkdir(exist_ok=True)
        return super().__new__(cls)

    def __init__(self, *arguments):
        (MARKER / "initialised").mkdir(exist_ok=True)

    def __getstate__(self):
        return {{"x": 1}}

    def __setstate__(self, state):
        (MARKER / "state set").mkdir(exist_ok=True)

    def __hash__(self):
        (MARKER / "hashed").mkdir(exist_ok=True)
        return 0

class Called(Trap):
    def __reduce__(self):
        return Called, (1, 2), {{"x": 1}}

class Filled(dict):
    def __setitem__(self, key, value):
        (MARKER / "item set").mkdir(exist_ok=True)

def function(*arguments):
    (MARKER / "called").mkdir(exist_ok=True)
"""


class Calling:
    """Unpickling it calls a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


class Config(dict[str, object]):
    """Options as yacs and others keep them: a dict with attributes."""


class Mode(enum.Enum):
    TRAIN = "train"


def save(path: Path, beside: object, zipped: bool = True) -> Path:
    torch.save({"model": STATE, "beside": beside}, path, _use_new_zipfile_serialization=zipped)
    return path


def spliced(path: Path, opcodes: bytes) -> Path:
    """A file in which raw opcodes of a pickle, which push one object, stand beside the weights."""
    save(path, "PLACEHOLDER")
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in records if name.endswith("data.pkl"))
    text = b"X\x0b\x00\x00\x00PLACEHOLDER"
    assert records[name].count(text) == 1
    records[name] = records[name].replace(text, opcodes)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    return path


def assert_weights(path: Path) -> None:
    found = load_state(path, "deit")
    assert list(found) == list(STATE)
    assert all(torch.equal(found[name], value) for name, value in STATE.items())


def whole_training() -> dict[str, object]:
    module = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return {
        "optimizer": optimizer,
        "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1),
        "scaler": torch.amp.GradScaler("cpu"),
        "whole model": module,
        "method": module.forward,
    }


BESIDE: dict[str, object] = {
    **whole_training(),
    "all of these together": whole_training(),
    "state of an optimiser": torch.optim.SGD(nn.Linear(1, 1).parameters(), momentum=0.9).state_dict(),
    "options": argparse.Namespace(lr=0.1, output=pathlib.PurePosixPath("/out"), mode=Mode.TRAIN),
    "options in a dict": Config(lr=0.1, model=Config(name="deit")),
    "numpy scalar": np.float64(79.2),
    "numpy array": np.arange(3.0),
    "numpy generator": np.random.default_rng(0),
    "function": len,
    "partial": functools.partial(max, 1, key=len),
    "exception": ValueError("no"),
    "defaultdict": collections.defaultdict(list, {"a": [1]}),
    "deque": collections.deque([1.0, 2.0, 3.0], maxlen=20),
    "counter": collections.Counter("aab"),
    "frozen set": frozenset({1}),
    "large number": 10**30,
    "stand-ins as keys": {Mode.TRAIN: 1, pathlib.PurePosixPath("/"): {Mode.TRAIN}},
}


class TestWhatLiesBesideIsIgnored:
    @pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
    def test_the_weights_are_read_whatever_lies_beside_them(self, tmp_path: Path, beside: object) -> None:
        assert_weights(save(tmp_path / "a.pth", beside))

    def test_stand_ins_are_forgotten_after_each_file(self, tmp_path: Path) -> None:
        before = set(torch.serialization.get_safe_globals())
        assert_weights(save(tmp_path / "a.pth", BESIDE["all of these together"]))
        assert set(torch.serialization.get_safe_globals()) == before
        with pytest.raises(pickle.UnpicklingError):
            torch.load(tmp_path / "a.pth", weights_only=True)

    def test_without_a_path_nothing_is_put_aside_and_the_message_says_how(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"AdamW beside its tensors.*, name their weights\.layout$"):
            load_state(save(tmp_path / "a.pth", BESIDE["optimizer"]))

    def test_of_torchs_older_form_nothing_is_put_aside_and_the_message_says_so(self, tmp_path: Path) -> None:
        for layout in ("plain", "deit"):
            with pytest.raises(WeightsError, match=r"AdamW beside.*older form, which this is, nothing can be put"):
                load_state(save(tmp_path / "a.pth", BESIDE["optimizer"], zipped=False), layout)

    def test_of_torchs_older_form_what_torch_knows_itself_is_read(self, tmp_path: Path) -> None:
        assert_weights(save(tmp_path / "a.pth", argparse.Namespace(lr=0.1), zipped=False))


class TestNothingIsRun:
    @pytest.fixture
    def trap(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A module that tells by folders what of it ran; it can be imported, and is not."""
        (tmp_path / "marks").mkdir()
        (tmp_path / "their_trap.py").write_text(TRAP.format(marker=str(tmp_path / "marks")))
        monkeypatch.syspath_prepend(str(tmp_path))
        return importlib.import_module("their_trap")

    @staticmethod
    def disarmed(tmp_path: Path) -> Path:
        """Forget the module and its marks, after a file was saved with it."""
        del sys.modules["their_trap"]
        marks = tmp_path / "marks"
        for mark in marks.iterdir():
            mark.rmdir()
        return marks

    @pytest.mark.parametrize(
        "make",
        [
            lambda trap: trap.Trap(),
            lambda trap: trap.Called(),
            lambda trap: Calling(trap.function, "x"),
            lambda trap: trap.Filled(a=1),
            lambda trap: {trap.Trap(): 1},
            lambda trap: trap.function,
            lambda trap: [trap.Trap, {trap.Called()}],
            lambda trap: Calling(functools.partial, trap.function),
            lambda trap: Calling(map, trap.function, ["x"]),
        ],
    )
    def test_of_what_an_importable_module_has(self, tmp_path: Path, trap: Any, make: Callable[[Any], object]) -> None:
        path = save(tmp_path / "a.pth", make(trap))
        marks = self.disarmed(tmp_path)
        assert_weights(path)
        assert list(marks.iterdir()) == []
        assert "their_trap" not in sys.modules

    def test_the_trap_of_these_tests_does_spring(self, tmp_path: Path, trap: Any) -> None:
        path = save(tmp_path / "a.pth", [trap.Trap(), trap.Called(), trap.Filled(a=1), {trap.Trap()}])
        marks = self.disarmed(tmp_path)
        torch.load(path, weights_only=False)
        assert {mark.name for mark in marks.iterdir()} >= {
            "imported", "made", "initialised", "state set", "hashed", "item set",
        }  # fmt: skip

    @pytest.mark.parametrize("function", [eval, exec, builtins.__import__, pickle.loads, getattr, open, io.FileIO])
    def test_of_a_builtin_or_the_standard_library(self, tmp_path: Path, function: Callable[..., object]) -> None:
        marker = tmp_path / "ran"
        argument = {
            eval: f"__import__('pathlib').Path({str(marker)!r}).mkdir()",
            exec: f"__import__('pathlib').Path({str(marker)!r}).mkdir()",
            builtins.__import__: "this",
            pickle.loads: pickle.dumps(Calling(os.mkdir, str(marker))),
        }.get(function, str(marker))
        path = save(tmp_path / "a.pth", Calling(function, argument, "w"))
        assert_weights(path)
        assert not marker.exists()
        assert "this" not in sys.modules

    @pytest.mark.parametrize("function", [os.system, os.mkdir, os.unlink, sys.exit])
    def test_of_os_and_sys_which_stay_refused_by_name(self, tmp_path: Path, function: Callable[..., object]) -> None:
        marker = tmp_path / "ran"
        path = save(tmp_path / "a.pth", Calling(function, f"mkdir {marker}"))
        with pytest.raises(WeightsError, match=rf"contains \w+\.{function.__name__} .*is code.*Nothing of it was run"):
            load_state(path, "deit")
        assert not marker.exists()

    @pytest.mark.parametrize(
        "opcodes",
        [
            b"ca\nB\n)R)R",  # what a stand-in gives is called
            b"X\x04\x00\x00\x00eval)R",  # text is called
            b"ca\nB\n)\x81)R",  # an instance is called
            b"ca\nB\n}b",  # the state of a class is set
            b"ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\neval\ncbuiltins\nstr\nX\x01\x00\x00\x001\x85}tR",
            b"ctorch._utils\n_rebuild_parameter\n(ca\nB\n\x88}tR",
            b"ctorch._utils\n_rebuild_wrapper_subclass\n(ca\nB\nNNNNNNNtR",
            b"ctorch._utils\n_rebuild_device_tensor_from_numpy\n(ca\nB\nNNNtR",
            b"ccollections\nCounter\nca\nB\n)R\x85R",  # counts a stand-in
            b"ca\nB\n)R(K\x01K\x02u(K\x01e",  # filled as a dict, then as a list
            b"ca\n\x00\nN\x85R",  # a name that no class can have
            b"ca\n\xff\n)R",
        ],
    )
    def test_hand_written_pickles_are_refused(self, tmp_path: Path, opcodes: bytes) -> None:
        with pytest.raises(WeightsError, match="truncated or damaged"):
            load_state(spliced(tmp_path / "a.pth", opcodes), "deit")

    @pytest.mark.parametrize(
        "opcodes",
        [
            b"ca\nB\n(K\x01tR}b",  # made of something, and given a state
            b"ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\neval\ncbuiltins\neval\n)}tR",  # in a tensor's guise
        ],
    )
    def test_hand_written_pickles_of_inert_things_are_read(self, tmp_path: Path, opcodes: bytes) -> None:
        assert_weights(spliced(tmp_path / "a.pth", opcodes))

    def test_a_complaint_that_the_file_forges_is_believed_no_more_than_once(self, tmp_path: Path) -> None:
        forged = "Can only SETITEM <class 'robench.models.state_files.a.B'>"
        stand_ins = StandIns(["a.B"])
        assert [stand_ins.fill(forged), stand_ins.fill(forged)] == [True, False]
        called = b"X" + len(forged).to_bytes(4, "little") + forged.encode() + b")R"
        with pytest.raises(WeightsError):
            load_state(spliced(tmp_path / "a.pth", b"ca\nB\n" + called + b"\x86"), "deit")

    def test_a_flood_of_names_is_refused(self, tmp_path: Path) -> None:
        names = b"".join(b"ca\nB%d\n" % number for number in range(MAX_NAMES + 1))
        with pytest.raises(WeightsError, match=r"names 1001 classes beside its weights, at most 1000"):
            load_state(spliced(tmp_path / "a.pth", b"(" + names + b"t"), "deit")


class TestStandInsAreNoWeights:
    def test_among_the_tensors_they_are_refused_with_file_and_class(self, tmp_path: Path) -> None:
        torch.save({"model": {**STATE, "odd": Mode.TRAIN}}, tmp_path / "a.pth")
        with pytest.raises(WeightsError, match=rf"a\.pth .*entry 'odd' is of type {__name__}\.Mode, wanted a dense"):
            load_state(tmp_path / "a.pth", "deit")

    def test_a_whole_pickled_model_is_no_state_dict(self, tmp_path: Path) -> None:
        torch.save({"model": nn.Linear(2, 2)}, tmp_path / "a.pth")
        with pytest.raises(WeightsError, match="no tensors by name lie under 'model'"):
            load_state(tmp_path / "a.pth", "deit")

    def test_a_mapping_of_an_unknown_class_is_no_state_dict(self, tmp_path: Path) -> None:
        torch.save({"model": Config(STATE)}, tmp_path / "a.pth")
        with pytest.raises(WeightsError, match="what lies under 'model' is of a class that torch does not know"):
            load_state(tmp_path / "a.pth", "deit")

    def test_an_instance_holds_its_state_alone(self) -> None:
        instance = StandIn(1, "two", [3])
        assert instance.state == {}
        instance.__setstate__({"x": 1})
        assert instance.state == {"x": 1}
        assert not hasattr(instance, "__dict__")
        assert not hasattr(instance, "x")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_give_tensors_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    path = save(tmp_path / "a.pth", [BESIDE["options"], BESIDE["options in a dict"], BESIDE["deque"]])
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x03\x04") + 64
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(start, start + 900))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        found = load_state(path, "deit")
    except WeightsError:
        return
    assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())
