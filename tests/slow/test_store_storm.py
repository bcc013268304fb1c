"""Commands on one results folder, killed at random moments and run side by side, lose and change no outcome."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from conftest import Robench
from killed_runs import MODELS, WARM, model_options, sorted_outcomes

from robench.cli.main import main

# As many rounds as fit.
SECONDS = 170.0
LONGEST_PATIENCE = 2.5
# A command that was not killed ends by itself, long before.
SECONDS_TO_END = 120.0


def act(options: list[str], said: str) -> None:
    """Run a command in a process group of its own, with its stdout and stderr in a file."""
    os.setsid()
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    sys.argv = ["robench", *options]
    main()


@dataclass
class Command:
    """A command that is running.

    Attributes:
        said: file of what it printed.
    """

    options: list[str]
    said: Path
    process: BaseProcess

    @classmethod
    def begin(cls, options: list[str], said: Path) -> Command:
        process = WARM.Process(target=act, args=(options, str(said)))
        process.start()
        return cls(options, said, process)

    def kill(self, *, with_children: bool) -> None:
        """Kill it, if it has not ended, with its process group (a machine) or alone."""
        if self.process.is_alive() and self.process.pid is not None:
            try:
                (os.killpg if with_children else os.kill)(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has no group yet
                self.process.kill()
        self.process.join(SECONDS_TO_END)

    def check_end(self) -> None:
        """Hold that it ends by itself, and that one which does not end with 0 names a command, and no traceback."""
        self.process.join(SECONDS_TO_END)
        ended = self.options, self.process.exitcode, self.said.read_text()
        assert self.process.exitcode in (0, 1), ended
        assert self.process.exitcode == 0 or "'robench " in self.said.read_text(), ended
        assert "Traceback" not in self.said.read_text(), (self.options, self.said.read_text())


def test_a_storm_over_run_report_compact_merge_gc_and_verify_loses_no_outcome(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    suite = small_suite(**{"batch_size: 50": "batch_size: 10"})
    folder, other, whole = tmp_path / "storm", tmp_path / "other", tmp_path / "whole"
    run = ["run", "--suite", str(suite), *model_options(MODELS)]
    assert robench(*run, "--workers", 1, "--results", whole).code == 0
    assert robench(*run[:5], "--workers", 1, "--results", other).code == 0
    in_folder = ["--results", str(folder)]
    commands = {
        "serial": [*run, "--executor", "serial", *in_folder],
        "workers": [*run, "--workers", "2", *in_folder],
        "report": ["report", "--suite", str(suite), *in_folder],
        "compact": ["store", "compact", *in_folder],
        "merge": ["store", "merge", str(other), *in_folder],
        "verify": ["store", "verify", *in_folder],
        # The suite is no shipped one: without it everything is moved aside.
        "gc": ["store", "gc", "--apply", "--suite", str(suite), *in_folder],
        "gc of all": ["store", "gc", "--apply", *in_folder],
    }
    weights = dict.fromkeys(commands, 2) | {"serial": 6, "gc of all": 1}
    draws, until, num_rounds, num_kills = random.Random(0), time.monotonic() + SECONDS, 0, 0
    folder.mkdir()
    while time.monotonic() < until:
        names = draws.choices([*commands], [*weights.values()], k=draws.choice((1, 2, 2)))
        begun = [Command.begin(commands[name], tmp_path / f"said-{place}") for place, name in enumerate(names)]
        time.sleep(draws.uniform(0.05, LONGEST_PATIENCE))
        for command in begun:
            if draws.random() < 0.7:
                num_kills += command.process.is_alive()
                command.kill(with_children=draws.random() < 0.5)
            else:
                command.check_end()
        num_rounds += 1
    with capfd.disabled():
        print(f"\n{num_rounds} rounds, {num_kills} kills")  # noqa: T201  # for docs/reliability.md
    assert num_kills > 10
    assert robench(*run, "--workers", 1, *in_folder).code == 0
    assert sorted_outcomes(folder) == sorted_outcomes(whole)
    assert robench("store", "verify", *in_folder).code == 0
