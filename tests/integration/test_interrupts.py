"""Ctrl-C once finishes what is under way; twice stops; two runs at once do not disturb each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Robench

PROGRAM = [sys.executable, "-m", "robench", "run", "--model", "digits-vit"]


def begin(suite: Path, results: Path, *options: str) -> subprocess.Popen[str]:
    command = [*PROGRAM, "--suite", str(suite), "--results", str(results), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_records(results: Path, count: int = 1) -> None:
    while len(list(results.rglob("*.parquet"))) < count:
        time.sleep(0.05)


def test_one_interrupt_drains_and_the_same_command_goes_on(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_steps: 4": "num_steps: 40", "num_examples: 150": "num_examples: 600"})
    run = begin(suite, tmp_path / "r", "--workers", "2")
    wait_for_records(tmp_path / "r")
    # As a terminal does: to the whole group, workers included.
    os.killpg(run.pid, signal.SIGINT)
    stdout, stderr = run.communicate()
    assert run.returncode == 130
    assert "Finishing the shards under way" in stderr
    assert "the same command goes on from there" in stderr
    assert "missing" in stdout
    assert "Traceback" not in stderr
    store = FolderStore(tmp_path / "r")
    kept = store.keys()
    assert 0 < len(kept) < 36
    assert list(store.failures()) == []
    fast = small_suite("fast")
    assert robench("run", "--suite", fast, "--model", "digits-vit", "--results", tmp_path / "r").code == 0


def test_two_interrupts_stop_at_once_without_a_traceback(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{"num_steps: 4": "num_steps: 4000", "num_examples: 150": "num_examples: 600"})
    run = begin(suite, tmp_path / "r", "--executor", "serial")
    # Clean and FGSM are measured; what is under way is a shard of 4000 steps.
    wait_for_records(tmp_path / "r", 24)
    for _ in range(2):
        os.kill(run.pid, signal.SIGINT)
        time.sleep(0.3)
    stdout, stderr = run.communicate()
    assert run.returncode == 130
    assert stdout == ""
    assert "What was kept is safe" in stderr
    assert "Traceback" not in stderr


def test_two_runs_at_once_on_one_folder_both_end_well_with_the_same_table(
    small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite()
    runs = [begin(suite, tmp_path / "r", "--executor", "serial") for _ in range(2)]
    tables = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert tables[0][0] == tables[1][0]
    assert all("other outcomes" not in stderr for _, stderr in tables)
    assert len(FolderStore(tmp_path / "r").keys()) == 9
