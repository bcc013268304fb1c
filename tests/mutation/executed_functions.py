"""Plug-in of pytest: which functions of robench each test file executes, and how many seconds of CPU it takes.

``EXECUTED_FUNCTIONS`` names the file to write: per test file ``seconds`` and ``functions``, each ``file:first line``.
Functions of other processes are not seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

ROOT = Path(__file__).parents[2]
PACKAGE = f"{ROOT / 'robench'}{os.sep}"

executed: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
seconds: defaultdict[str, float] = defaultdict(float)
current: set[tuple[str, int]] = set()


def record(frame: FrameType, event: str, argument: object) -> None:
    """Note a function that is called; no line of it is traced."""
    code = frame.f_code
    if code.co_filename.startswith(PACKAGE):
        current.add((code.co_filename, code.co_firstlineno))


def cpu_seconds() -> float:
    """Return the seconds of CPU of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test with its fixtures."""
    global current
    file = item.path.relative_to(ROOT).as_posix()
    current, began = executed[file], cpu_seconds()
    # A test may have taken the tracing away.
    threading.settrace(record)
    sys.settrace(record)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # documented, and missing from the stubs
        seconds[file] += cpu_seconds() - began


def pytest_sessionfinish() -> None:
    """Write what was seen."""
    found = {
        file: {
            "seconds": round(seconds[file], 3),
            "functions": sorted(f"{Path(name).relative_to(ROOT).as_posix()}:{line}" for name, line in functions),
        }
        for file, functions in executed.items()
    }
    Path(os.environ["EXECUTED_FUNCTIONS"]).write_text(json.dumps(found))
