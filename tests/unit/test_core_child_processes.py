"""The script that started a run: which values need it elsewhere, and that processes can be kept from importing it."""

from __future__ import annotations

import multiprocessing
import sys
from fractions import Fraction
from types import ModuleType

import pytest

from robench.core.child_processes import refers_to_script, without_script
from robench.declarations.preprocessing import ImagePreprocessing


class OfAScript:
    pass


def test_values_of_modules_need_no_script() -> None:
    own = ImagePreprocessing(mean=(0.5,), std=(0.5,))
    assert not refers_to_script([own, Fraction(8, 255), {"a": [own]}])
    assert not refers_to_script([])


@pytest.mark.parametrize("nested", [False, True])
def test_an_instance_of_a_class_of_the_script_needs_it(monkeypatch: pytest.MonkeyPatch, nested: bool) -> None:
    script = ModuleType("__main__")
    script.OfAScript = OfAScript  # type: ignore[attr-defined]
    monkeypatch.setattr(OfAScript, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    value = OfAScript()
    assert refers_to_script([1, {"a": [value]} if nested else value])


def test_the_script_is_back_after_processes_were_started() -> None:
    before = sys.modules["__main__"]
    inside = []

    def fail() -> None:
        with without_script():
            inside.append(sys.modules["__main__"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside != [before]
    assert sys.modules["__main__"] is before


def path_of_main(queue: multiprocessing.Queue[str | None]) -> None:
    queue.put(getattr(sys.modules["__main__"], "__file__", None))


def test_a_process_started_without_it_has_no_script() -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[str | None] = context.Queue()
    process = context.Process(target=path_of_main, args=(queue,))
    with without_script():
        process.start()
    assert queue.get(timeout=60) is None
    process.join()
    assert process.exitcode == 0
