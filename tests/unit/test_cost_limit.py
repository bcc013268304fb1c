"""A test of ``make test`` that takes too much CPU is listed at the end, and one that waits is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
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


def listed(folder: Path, *options: str) -> set[str]:
    """The planted tests of a folder that are listed as too costly."""
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options, "."]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "1 failed, 4 passed" in ended.stdout
    return set(re.findall(r"^ +0\.\d s  .*::(\w+)$", ended.stdout, re.MULTILINE))


@pytest.mark.parametrize("options", [("-p", "no:xdist"), ("-n", "2")], ids=["one process", "two workers"])
def test_what_takes_too_much_cpu_is_listed(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert listed(tmp_path / "tests", *options) == {"test_busy", "test_busy_child", "test_busy_fixture"}


def test_tests_of_the_slow_folder_may_take_as_long_as_they_need(tmp_path: Path) -> None:
    assert listed(tmp_path / "tests" / "slow", "-p", "no:xdist") == set()


def test_the_limit_is_ten_seconds() -> None:
    assert LONGEST == 10
