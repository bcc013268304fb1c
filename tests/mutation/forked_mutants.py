"""Plug-in of pytest: collects all tests once, and runs for each mutant those that it concerns in a fork of the process.

A mutant changes the code of functions that are already imported, and the file on disk for processes that tests start.
So no test module is imported and no test collected again. ``MUTANTS`` names a JSON file of tasks: ``name``, ``file``,
``changed`` (text of the changed module), ``tests`` (names, in order) and ``seconds`` (their cost). ``OUTCOMES`` names
the file to which a line is added for each: ``killer``, the failing test, or null where no function's code differs, as
for constants of modules.
"""

import gc
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# Of CPU: a mutant may loop without end.
FACTOR, LEAST = 5.0, 30.0

failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note tests that fail."""
    if report.failed:
        failed.append(report.nodeid)


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Measure all mutants in place of running the tests."""
    items = {item.nodeid: item for item in session.items}
    with Path(os.environ["OUTCOMES"]).open("a") as outcomes:
        for number, task in enumerate(json.loads(Path(os.environ["MUTANTS"]).read_text())):
            path, began = ROOT / task["file"], time.monotonic()
            source = path.read_text()
            path.write_text(task["changed"])
            try:
                killer = killer_of(session, [items[name] for name in task["tests"] if name in items], task, number)
            finally:
                path.write_text(source)
            found = {"name": task["name"], "killer": killer, "seconds": round(time.monotonic() - began, 1)}
            outcomes.write(json.dumps(found) + "\n")
            outcomes.flush()
    return True


def killer_of(session: pytest.Session, items: list[pytest.Item], task: dict[str, Any], number: int) -> str | None:
    """Return what ends the tests of a mutant in a fork; empty if all pass."""
    pairs = changed_functions(ROOT / task["file"], task["changed"])
    if not pairs:
        return None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        limit = int(LEAST + FACTOR * task["seconds"])
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / str(number)
        factory._basetemp.mkdir()
        try:
            for function, code in pairs:
                function.__code__ = code
            for item, following in zip_longest(items, items[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if failed:
                    break
            os.write(writing, f"ended {failed[0] if failed else ''}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    # What the tests have started.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return printed.removeprefix("ended ") if printed else f"ended by {status}"


def changed_functions(path: Path, changed: str) -> list[tuple[FunctionType, CodeType]]:
    """Return the live functions of a module whose code differs in its changed text, with that code."""
    whole = compile(changed, str(path), "exec", dont_inherit=True)
    codes = {(code.co_qualname, code.co_firstlineno): code for code in all_codes(whole)}
    live = [
        each for each in gc.get_objects() if isinstance(each, FunctionType) and each.__code__.co_filename == str(path)
    ]
    found = []
    for function in live:
        code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if (
            code is not None
            and code != function.__code__
            and len(code.co_freevars) == len(function.__code__.co_freevars)
        ):
            found.append((function, code))
    return found


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those that it contains."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from all_codes(each)
