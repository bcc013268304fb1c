"""The GPU battery divides its time over the parts, says why it leaves one out, and keeps what it has."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def taking(self, seconds: float, **row: Any) -> Any:
        def measure() -> dict[str, Any]:
            self.now += seconds
            return row

        return measure


def run(parts: list[tuple[str, float, list[tuple[str, Any, tuple[str, ...]]]]], seconds: float, clock: Clock) -> Any:
    from gpu_battery import Battery
    from gpu_parts import Part, Task

    def tasks_of(tasks: list[tuple[str, Any, tuple[str, ...]]]) -> Any:
        return lambda setting: [Task(*task) for task in tasks]

    kept: list[str] = []
    battery = Battery(document={}, seconds=seconds, clock=clock, keep=lambda made: kept.append(json.dumps(made)))
    declared = [Part(name, name.title(), weight, tasks_of(tasks)) for name, weight, tasks in parts]
    battery.run(declared, None)  # type: ignore[arg-type]  # these tasks ask for nothing
    return battery.document["parts"], kept


def test_a_part_gets_its_share_and_what_others_left() -> None:
    clock = Clock()
    first = [(f"a{number}", clock.taking(4, value=number), ()) for number in range(3)]
    second = [(f"b{number}", clock.taking(10, value=number), ()) for number in range(4)]
    parts, _ = run([("first", 1, first), ("second", 3, second)], 20, clock)
    # Of 20 seconds the first has 5: it begins a second measurement, and no third.
    assert [row.get("value") for row in parts["first"]["rows"]] == [0, 1, None]
    assert parts["first"]["rows"][2] == {"name": "a2", "skipped": "no time was left in this part"}
    assert [row.get("value") for row in parts["second"]["rows"]] == [0, 1, None, None]
    assert parts["first"]["seconds"] == 8


def test_a_part_without_time_a_library_that_is_absent_and_a_failure_are_listed() -> None:
    clock = Clock()

    def fail() -> dict[str, Any]:
        raise RuntimeError("out of memory")

    tasks = [("absent", clock.taking(1), ("no_library",)), ("broken", fail, ()), ("long", clock.taking(99, x=1), ())]
    parts, kept = run([("some", 1, tasks), ("late", 1, [("late", clock.taking(1), ())])], 10, clock)
    first, second, third = parts["some"]["rows"]
    assert first == {"name": "absent", "skipped": "no_library is not installed"}
    assert second["failed"] == "RuntimeError: out of memory"
    assert third == {"name": "long", "x": 1}
    assert parts["late"]["rows"] == [{"name": "all", "skipped": "no time was left"}]
    # Kept after each measurement and after each part.
    assert len(kept) == 5
    assert '"long"' not in kept[1]


def test_a_part_that_cannot_begin_is_listed() -> None:
    from gpu_battery import Battery
    from gpu_parts import Part

    def tasks(setting: Any) -> Iterator[Any]:
        raise ValueError("no such model")
        yield

    battery = Battery(document={}, seconds=10)
    battery.run([Part("p", "P", 1, tasks)], None)  # type: ignore[arg-type]  # as above
    assert battery.document["parts"]["p"]["rows"] == [{"name": "all", "failed": "ValueError: no such model"}]


def test_the_page_has_a_table_of_what_was_measured_and_a_sentence_for_the_rest() -> None:
    from gpu_battery import as_markdown

    about = {"command": "c", "date": "d", "device": "cuda", "model": "ViT"}
    rows = [
        {"name": "pgd", "gain": 1.23456, "images": 4},
        {"name": "a|b", "gain": 2.0},
        {"name": "x", "skipped": "y is not installed"},
        {"name": "z", "skipped": "y is not installed"},
        {"name": "w", "failed": "OutOfMemoryError: all"},
    ]
    page = as_markdown({"manifest": about, "parts": {"p": {"title": "Attacks", "rows": rows}}})
    assert "| name | gain | images |\n|---|---|---|\n| pgd | 1.235 | 4 |\n| a\\|b | 2 |  |\n" in page
    assert "\nSkipped, since y is not installed: x, z.\n" in page
    assert "\nFailed, since OutOfMemoryError: all: w.\n" in page


def test_without_a_gpu_it_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "gpu_battery.py"), "--device", "cpu", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no GPU here: add --tiny" in done.stderr
    assert list(tmp_path.iterdir()) == []
