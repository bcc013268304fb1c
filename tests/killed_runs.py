"""Runs that are interrupted or killed, at random moments too."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from conftest import Robench

from robench.cli.main import main
from robench.store import FolderStore

MODELS = ("digits-vit", "digits-symvit", "digits-rpc-symvit")


def model_options(names: tuple[str, ...]) -> list[str]:
    return [option for name in names for option in ("--model", name)]


def sorted_outcomes(results: Path) -> list[str]:
    records = FolderStore(results).records(lambda header: True)
    return sorted(f"{record.shard.key} {record.outcomes!r}" for record in records)


def begin(suite: Path, results: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run of digits-vit in a process group of its own."""
    command = [sys.executable, "-m", "robench", "run", "--model", "digits-vit"]
    command += ["--suite", str(suite), "--results", str(results), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_records(results: Path, count: int = 1) -> None:
    while len(list(results.rglob("*.parquet"))) < count:
        time.sleep(0.05)


def leases_in(results: Path) -> list[Path]:
    """Return the leases of shards that are being measured."""
    return sorted((results / "leases").glob("*"))


def wait_for_lease(results: Path) -> None:
    while not leases_in(results):
        time.sleep(0.05)


def check_that_kills_change_no_byte(
    robench: Robench,
    small_suite: Callable[..., Path],
    tmp_path: Path,
    num_kills: int,
) -> None:
    suite = small_suite(**{"batch_size: 50": "batch_size: 10", "num_examples: 150": "num_examples: 300"})
    check_kills_of(robench, ["--suite", str(suite), *model_options(MODELS)], tmp_path, num_kills)


def check_kills_of(robench: Robench, options: list[str], tmp_path: Path, num_kills: int) -> None:
    """Hold that a run with some options, killed again and again, has the outcomes of one that was not."""
    assert robench("run", *options, "--workers", 1, "--results", tmp_path / "whole").code == 0
    moments = random.Random(0)
    for number in range(num_kills):
        layout = ["--workers", "2"] if number % 5 == 0 else ["--executor", "serial"]
        process = WARM.Process(target=run_as_group, args=([*options, *layout, "--results", str(tmp_path / "killed")],))
        process.start()
        wait_for_a_record_or_the_end(process, tmp_path / "killed")
        time.sleep(moments.uniform(0.0, 0.2))
        assert process.is_alive(), "the run ended before it was killed as often as asked"
        # Half of the times the whole group dies (a machine), half of the times the parent alone (its workers follow).
        (os.killpg if moments.random() < 0.5 else os.kill)(process.pid or 0, signal.SIGKILL)
        process.join()
    assert robench("run", *options, "--workers", 2, "--results", tmp_path / "killed").code == 0
    assert sorted_outcomes(tmp_path / "killed") == sorted_outcomes(tmp_path / "whole")


# A server that has imported torch already forks the processes that are to be killed, which saves seconds for each.
WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(["robench.runs", "robench.cli.run_command"])


def run_as_group(options: list[str]) -> None:
    os.setsid()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, sys.stdout.fileno())
    os.dup2(silent, sys.stderr.fileno())
    sys.argv = ["robench", "run", *options]
    main()


def wait_for_a_record_or_the_end(process: BaseProcess, results: Path) -> None:
    before = len(list(results.rglob("*.parquet")))
    while process.is_alive() and len(list(results.rglob("*.parquet"))) == before:
        time.sleep(0.02)
