"""A test of ``make test`` that takes too much CPU is listed at the end, and one that waits is not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PLANTED = """
import subprocess, sys, time
import conftest
import pytest

conftest.LONGEST, conftest.MOST = 0.15, 0.8
BUSY = "import time\\nwhile time.process_time() < 0.3: pass"

def busy(seconds=0.2):
    began = time.process_time()
    while time.process_time() - began < seconds:
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

def test_hopeless():
    busy(0.9)

def test_waiting():
    time.sleep(0.5)

def test_failing():
    assert 1 == 2
"""


def listed(folder: Path, *options: str) -> tuple[set[str], set[str]]:
    """The planted tests of a folder that are listed as too costly, and those that fail."""
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options, "."]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    failed = set(re.findall(r"^FAILED .*::(\w+)", ended.stdout, re.MULTILINE))
    return set(re.findall(r"^ +0\.\d s  .*::(\w+)$", ended.stdout, re.MULTILINE)), failed


@pytest.mark.parametrize(
    "options",
    [("-p", "no:xdist"), pytest.param(("-n", "2"), marks=pytest.mark.slow)],
    ids=["one process", "two workers"],
)
def test_what_takes_too_much_cpu_is_listed_and_fails_above_the_bound(tmp_path: Path, options: tuple[str, ...]) -> None:
    costly, failed = listed(tmp_path / "tests", *options)
    assert costly == {"test_busy", "test_busy_child", "test_busy_fixture"}
    assert failed == {"test_failing", "test_hopeless"}


@pytest.mark.slow
def test_tests_of_the_slow_folder_may_take_as_long_as_they_need(tmp_path: Path) -> None:
    assert listed(tmp_path / "tests" / "slow", "-p", "no:xdist") == (set(), {"test_failing"})
