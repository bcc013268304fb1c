"""Ctrl-C finishes what is under way; tests/slow has workers, Ctrl-C twice, SIGTERM and SIGUSR1."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Robench
from killed_runs import begin, wait_for_records

from robench.store import FolderStore


def check_drained(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, layout: tuple[str, ...]) -> str:
    """Interrupt a run and repeat it; return what the interrupted one wrote to stderr."""
    suite = small_suite(**{"num_steps: 4": "num_steps: 16"})
    run = begin(suite, tmp_path / "r", "--executor", *layout)
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
    assert 0 < len(kept) < 9
    assert list(store.failures()) == []
    again = ("run", "--suite", suite, "--model", "digits-vit", "--results", tmp_path / "r", "--executor", "serial")
    ended = robench(*again)
    assert ended.code == 0
    assert f"{len(kept)} of 9 shards" in ended.stderr
    assert "missing" not in ended.stdout
    return stderr


@pytest.mark.slow
def test_one_interrupt_drains_and_the_same_command_goes_on(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tracker that is there, and never used.
    (tmp_path / "mlflow.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path}")
    stderr = check_drained(robench, small_suite, tmp_path, ("serial", "--log-to", "mlflow"))
    last = stderr.splitlines()[-1]
    assert last == "Nothing was logged to mlflow; the same command logs the rows once all is measured."


WAITING = """
import sys, time
import robench.cli.validate_command as validate
from robench.cli.main import main

def wait(path, datasets):
    sys.stderr.write("waiting\\n")
    sys.stderr.flush()
    time.sleep(600)

validate.validate_file = wait
sys.argv = ["robench", "validate", "suite.yaml"]
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, "Terminated."),
        (signal.SIGUSR1, 75, "Stopped by SIGUSR1; shards under way are dropped."),
    ],
)
def test_a_signal_ends_a_command_that_measures_nothing(number: signal.Signals, code: int, message: str) -> None:
    command = [sys.executable, "-c", WAITING]
    validation = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert validation.stderr is not None
    assert validation.stderr.readline() == "waiting\n"
    validation.send_signal(number)
    stdout, stderr = validation.communicate()
    assert (validation.returncode, stdout) == (code, "")
    assert stderr.strip() == message
