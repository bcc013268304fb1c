"""Plug-in of pytest: which functions of robench each test executes, and how many seconds of CPU it takes.

``EXECUTED_FUNCTIONS`` names the file to write: ``tests`` (names and seconds) and ``functions``, each
``file:first line`` with the numbers of the tests that execute it. Functions of other processes are not seen.
``CHOSEN_TESTS`` names a file of names of tests, one a line: no others run.
"""

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = f"{ROOT / 'robench'}{os.sep}"

Functions = set[tuple[str, int]]
seconds: dict[str, float] = {}
executed: dict[str, Functions] = {}
# Of fixtures that tests share: all who ask for one depend on what it executes, not only the first.
shared: defaultdict[pytest.FixtureDef[Any], Functions] = defaultdict(set)
current: Functions = set()


def record(frame: FrameType, event: str, argument: object) -> None:
    """Note a function that is called; no line of it is traced."""
    code = frame.f_code
    if code.co_filename.startswith(PACKAGE):
        current.add((code.co_filename, code.co_firstlineno))


def cpu_seconds() -> float:
    """Return the seconds of CPU of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def fixtures_of(item: pytest.Item) -> list[pytest.FixtureDef[Any]]:
    """Return the fixtures that a test asks for, itself or through others."""
    found = getattr(item, "_fixtureinfo", None)
    return [each for several in found.name2fixturedefs.values() for each in several] if found else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that are chosen."""
    if chosen := os.environ.get("CHOSEN_TESTS"):
        names = set(Path(chosen).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = [item for item in items if item.nodeid in names]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Note what a shared fixture executes."""
    global current
    test, current = current, set() if fixturedef.scope != "function" else current
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            shared[fixturedef] |= current
            test |= current
            current = test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test with its fixtures."""
    global current
    if "EXECUTED_FUNCTIONS" not in os.environ:
        return (yield)
    current, began = set(), cpu_seconds()
    # A test may have taken the tracing away.
    threading.settrace(record)
    sys.settrace(record)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # documented, and missing from the stubs
        seconds[item.nodeid] = round(cpu_seconds() - began, 4)
        executed[item.nodeid] = current.union(*(shared[each] for each in fixtures_of(item) if each in shared))


def pytest_sessionfinish() -> None:
    """Write what was seen."""
    if path := os.environ.get("EXECUTED_FUNCTIONS"):
        functions: defaultdict[str, list[int]] = defaultdict(list)
        for number, found in enumerate(executed.values()):
            for name, line in found:
                functions[f"{Path(name).relative_to(ROOT).as_posix()}:{line}"].append(number)
        Path(path).write_text(json.dumps({"tests": list(seconds.items()), "functions": functions}))
