"""The ways of a number and of a model through robench, from ``robench run`` to the cell, are short and straight."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from itertools import pairwise
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any

import pytest
from conftest import ROOT, Ended, Robench
from layers import RANK

from robench.attacks import pgd_impl
from robench.declare import find_checkpoints
from robench.metrics import accuracy
from robench.models.loaded import LoadedModel

MODEL = "digits-vit"
FOLDER = f"{ROOT}/robench/"
SUITE = """\
name: one
version: 1
seed: 0
dataset: digits
batch_size: 4
conditions: [{name: pgd, num_examples: 4, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 4}}]
metrics: [top1_accuracy]
audit: false
"""
DEPTH = 6


def room_of(code: CodeType) -> str:
    return code.co_filename.removeprefix(FOLDER).split("/")[0].removesuffix(".py")


def carries(value: object, depth: int = DEPTH) -> bool:
    """Whether a value is the model's name, its loaded module, or has one of them in it, as an entry or a record has."""
    if isinstance(value, str):
        return value == MODEL
    if isinstance(value, LoadedModel):
        return True
    if depth == 0 or value is None or isinstance(value, type):
        return False
    if isinstance(value, dict):
        return any(carries(each, depth - 1) for pair in value.items() for each in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(carries(each, depth - 1) for each in value)
    if not type(value).__module__.startswith("robench."):
        return False
    slots = [getattr(each, "__slots__", ()) for each in type(value).__mro__]
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    held = [getattr(value, name, None) for name in names if not name.startswith("__")]
    return any(carries(each, depth - 1) for each in (*held, *getattr(value, "__dict__", {}).values()))


@dataclass(slots=True)
class Walk:
    """Calls of functions of robench, in the order in which they begin, that are given the model and hand it on.

    A function is given the model if an argument carries it (``carries``), and hands it on if its value, or one that it
    yields, carries it. One that answers a question about the model, such as its digest or whether it fits, is not on
    the way, and neither are methods of ``core``, whose classes are what is handed on.

    Attributes:
        calls: by number, the room (a folder of robench), the function and the rooms of the calls in progress.
    """

    calls: dict[int, tuple[str, str, set[str]]] = field(default_factory=dict)
    _num_calls: int = 0
    _begun: dict[FrameType, int] = field(default_factory=dict)

    @contextmanager
    def recording(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _on_call(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_lines = False
        if frame not in self._begun:
            self._num_calls += 1
            self._begun[frame] = self._num_calls
        return self._on_return

    def _on_return(self, frame: FrameType, event: str, value: object) -> Any:
        if event == "return":
            code, number = frame.f_code, self._begun[frame]
            if not code.co_flags & CO_GENERATOR:
                del self._begun[frame]
            if number not in self.calls and room_of(code) != "core" and carries(value) and self._is_given(frame):
                above = (each.f_code for each, _ in walk_stack(frame.f_back))
                rooms = {room_of(each) for each in above if each.co_filename.startswith(FOLDER)}
                self.calls[number] = room_of(code), code.co_qualname, rooms
        return self._on_return

    @staticmethod
    def _is_given(frame: FrameType) -> bool:
        code = frame.f_code
        further = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + further]
        return any(carries(frame.f_locals.get(name)) for name in (*names, *code.co_freevars))

    def stops(self) -> list[tuple[str, list[str], set[str]]]:
        """Stays in a room: it, the functions there, and the rooms with a call in progress as the model came in."""
        found: list[tuple[str, list[str], set[str]]] = []
        for _, (room, function, in_progress) in sorted(self.calls.items()):
            if not found or found[-1][0] != room:
                found.append((room, [], in_progress))
            found[-1][1].append(function)
        return found


def measured(robench: Robench, tmp_path: Path) -> Ended:
    suite = tmp_path / "one.yaml"
    suite.write_text(SUITE)
    return robench("run", "--suite", suite, "--model", MODEL, "--executor", "serial", "--results", tmp_path / "r")


def test_the_way_from_the_command_to_an_attack_and_to_a_number_is_short(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/architecture.md draws it; the command itself is the fourth stop of an installed ``robench``."""
    before_the_command = 3
    ways: dict[str, list[str]] = {}

    def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def with_its_way(*arguments: Any, **settings: Any) -> Any:
            codes = [frame.f_code for frame, _ in walk_stack(None) if FOLDER in frame.f_code.co_filename]
            own = [code.co_qualname for code in codes if not code.co_name.startswith("<")]
            ways.setdefault(name, own[: own.index("command") + 1])
            return function(*arguments, **settings)

        return with_its_way

    monkeypatch.setattr(pgd_impl, "pgd", recorded("attack", pgd_impl.pgd))
    monkeypatch.setattr(accuracy, "top1_accuracy", recorded("number", accuracy.top1_accuracy))
    assert measured(robench, tmp_path).code == 0
    assert len(ways["attack"]) + 1 + before_the_command <= 15, ways["attack"]
    assert len(ways["number"]) + 1 + before_the_command <= 15, ways["number"]


def test_the_way_from_the_model_s_name_to_its_cell_returns_to_no_room_that_it_has_left(
    robench: Robench, tmp_path: Path
) -> None:
    """docs/architecture.md draws it. A room is left when none of its functions is in progress; the store keeps records.

    A climb is a stop in a layer above that of the stop before.
    """
    walk = Walk()
    # Read before, since a registry has a hundred thousand values.
    find_checkpoints([MODEL])
    with walk.recording():
        assert measured(robench, tmp_path).code == 0
    stops = walk.stops()
    visited = [room for room, _, _ in stops]
    shown = [f"{room}: {', '.join(dict.fromkeys(functions))}" for room, functions, _ in stops]
    returns = [
        shown[place]
        for place, (room, _, in_progress) in enumerate(stops)
        if room in visited[:place] and room not in {*in_progress, "store"}
    ]
    # Otherwise the way was not seen.
    rooms = {"cli", "declare", "runs", "models", "scheduling", "executors", "evaluation", "store", "reports"}
    assert rooms <= {*visited}, shown
    assert returns == [], shown
    assert len(stops) <= 25, shown
    assert sum(RANK[after] < RANK[before] for before, after in pairwise(visited)) <= 8, shown
