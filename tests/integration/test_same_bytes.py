"""The same outcomes, byte for byte, whoever measures them, in whatever order, and whatever dies on the way."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from robench.cli.main import main
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

    from conftest import Robench

MODELS = ("digits-vit", "digits-symvit", "digits-rpc-symvit")


def model_options(names: tuple[str, ...]) -> list[str]:
    return [option for name in names for option in ("--model", name)]


def sorted_outcomes(results: Path) -> list[str]:
    records = FolderStore(results).records(lambda header: True)
    return sorted(f"{record.shard.key} {record.outcomes!r}" for record in records)


def test_one_worker_two_workers_and_another_order_give_the_same_bytes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite()
    layouts = {
        "serial": [*model_options(MODELS), "--executor", "serial"],
        "one": [*model_options(MODELS), "--executor", "processes", "--workers", "1"],
        "two": [*model_options(MODELS), "--workers", "2"],
        "reversed": [*model_options(MODELS[::-1]), "--workers", "2"],
        "limited-first": [*model_options(MODELS), "--workers", "1"],
    }
    assert (
        robench(
            "run", "--suite", suite, *layouts["serial"], "--limit", 70, "--results", tmp_path / "limited-first"
        ).code
        == 0
    )
    csv = {}
    for name, options in layouts.items():
        assert robench("run", "--suite", suite, *options, "--results", tmp_path / name).code == 0
        report = robench("report", "--suite", suite, "--format", "csv", "--results", tmp_path / name)
        csv[name] = report.stdout
    # Seven numbers a model, and how many flags are raised.
    assert len(csv["serial"].splitlines()) == 1 + 3 * 8
    assert set(csv.values()) == {csv["serial"]}
    outcomes = sorted_outcomes(tmp_path / "serial")
    assert len(outcomes) == 27
    assert all(sorted_outcomes(tmp_path / name) == outcomes for name in layouts)


def test_shards_of_several_batches_hold_the_same_outcomes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    whole, cut = small_suite("whole", **{"batch_size: 50": "batch_size: 50\nbatches_per_shard: 3"}), small_suite("cut")
    outcomes = {}
    for suite in (whole, cut):
        results = tmp_path / suite.stem
        assert robench("run", "--suite", suite, "--model", "digits-vit", "--workers", 1, "--results", results).code == 0
        records = sorted(
            FolderStore(results).records(lambda header: True),
            key=lambda record: (record.shard.condition, record.shard.start),
        )
        outcomes[suite.stem] = [repr(outcome) for record in records for outcome in record.outcomes]
    assert outcomes["whole"] == outcomes["cut"]
    assert len(outcomes["cut"]) == 450


def test_a_run_killed_at_twenty_random_moments_ends_with_the_same_bytes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"batch_size: 50": "batch_size: 10", "num_examples: 150": "num_examples: 300"})
    options = ["--suite", str(suite), *model_options(MODELS)]
    assert robench("run", *options, "--workers", 1, "--results", tmp_path / "whole").code == 0
    moments = random.Random(0)
    for number in range(20):
        layout = ["--workers", "2"] if number % 5 == 0 else ["--executor", "serial"]
        process = WARM.Process(target=run_as_group, args=([*options, *layout, "--results", str(tmp_path / "killed")],))
        process.start()
        wait_for_a_record_or_the_end(process, tmp_path / "killed")
        time.sleep(moments.uniform(0.0, 0.2))
        assert process.is_alive(), "the run ended before it was killed 20 times"
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
