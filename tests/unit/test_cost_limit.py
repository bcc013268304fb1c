"""A test of ``make test`` that takes too much CPU fails, and one that waits does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import LONGEST

TESTS = Path(__file__).parents[1]
PLANTED = """
import subprocess, sys, time
import conftest
import pytest

conftest.LONGEST = 0.15
BUSY = "import time\\nwhile time.process_time() < 0.3: pass"

def busy():
    began = time.process_time()
    while time.process_time() - began < 0.2:
        pass

@pytest.fixture
def measured():
    busy()

def test_busy():
    busy()

def test_busy_fixture(measured):
    pass

def test_busy_child():
    subprocess.run([sys.executable, "-c", BUSY], check=True)

def test_waiting():
    time.sleep(0.5)

def test_failing():
    assert 1 == 2
"""


def outcomes(folder: Path) -> dict[str, str]:
    """How the planted tests end in a folder, by their names."""
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:xdist", "-p", "no:cacheprovider", "-rA", "."]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = [line.split("::") for line in ended.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    return {name.split(" ")[0]: f"{state.split(' ')[0]} {name.partition(' - ')[2]}" for state, name in lines}


def test_what_takes_too_much_cpu_fails_and_says_what_to_do(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "tests")
    for name, state in {"busy": "FAILED", "busy_child": "FAILED", "busy_fixture": "ERROR"}.items():
        assert found[f"test_{name}"].startswith(f"{state} Failed: took 0."), found
    assert found["test_waiting"] == "PASSED "
    assert "assert 1 == 2" in found["test_failing"]


def test_tests_of_the_slow_folder_may_take_as_long_as_they_need(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "tests" / "slow")
    passed = {name for name, outcome in found.items() if outcome.startswith("PASSED")}
    assert passed == {"test_busy", "test_busy_child", "test_busy_fixture", "test_waiting"}


def test_the_limit_is_ten_seconds() -> None:
    assert LONGEST == 10
