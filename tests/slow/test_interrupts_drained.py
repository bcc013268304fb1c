"""Ctrl-C drains a run with workers, and SIGUSR1 gives up what a run has under way."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Robench
from killed_runs import begin, leases_in, sorted_outcomes, wait_for_lease
from test_interrupts import check_drained

from robench.store import FolderStore

WORKER = ("processes", "--workers", "1")


def check_given_up(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, layout: tuple[str, ...]) -> None:
    suite = small_suite()
    again = ("run", "--suite", suite, "--model", "digits-vit", "--results", tmp_path / "r", "--executor", "serial")
    assert robench(*again).code == 0
    kept = sorted_outcomes(tmp_path / "r")
    text = suite.read_text()
    # Three shards more, which would take minutes.
    suite.write_text(text.replace("num_steps: 4", "num_steps: 40000"))
    run = begin(suite, tmp_path / "r", "--executor", *layout)
    wait_for_lease(tmp_path / "r")
    # A batch system and its script may both send it, and a script more than once.
    for _ in range(3):
        run.send_signal(signal.SIGUSR1)
    stdout, stderr = run.communicate()
    assert (run.returncode, stdout) == (75, "")
    said = "Stopped by SIGUSR1; shards under way are dropped. What was measured is kept; the same command goes on"
    assert stderr.endswith(f"{said} from there.\n")
    assert stderr.count("SIGUSR1") == 1
    assert "Traceback" not in stderr
    assert sorted_outcomes(tmp_path / "r") == kept
    assert list(FolderStore(tmp_path / "r").failures()) == []
    assert leases_in(tmp_path / "r") == []
    suite.write_text(text.replace("num_steps: 4", "num_steps: 5"))
    ended = robench(*again)
    assert (ended.code, "missing" in ended.stdout) == (0, False)
    assert "6 of 9 shards" in ended.stderr


def test_one_interrupt_drains_and_the_same_command_goes_on(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    check_drained(robench, small_suite, tmp_path, WORKER)


@pytest.mark.parametrize("layout", [("serial",), WORKER])
def test_sigusr1_gives_up_what_is_under_way_and_the_same_command_goes_on(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, layout: tuple[str, ...]
) -> None:
    check_given_up(robench, small_suite, tmp_path, layout)
