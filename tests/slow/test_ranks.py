"""A node of eight ranks, one process each, stores what one worker does; a killed rank's part is not lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from robench.store import FolderStore

NODE = 8


def start(rank: int, suite: Path, results: Path, count: int = NODE) -> "subprocess.Popen[str]":
    ranks = {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "robench", "run", "--suite", str(suite), "--model", "digits-vit"]
    options = ["--results", str(results), "--device", "cpu"]
    return subprocess.Popen(
        [*command, *options], env={**os.environ, **ranks}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def outcomes(results: Path) -> dict[str, object]:
    return {record.shard.key: record.outcomes for record in FolderStore(results).records(lambda header: True)}


def test_eight_ranks_store_what_one_worker_does(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{"audit: false": "audit: false\nbatches_per_shard: 1", "150": "200"})
    printed = []
    for count, results in ((1, tmp_path / "one"), (NODE, tmp_path / "node")):
        ended = [each.communicate() for each in [start(rank, suite, results, count) for rank in range(count)]]
        assert all(not stdout for stdout, _ in ended[1:])
        printed.append(ended[0][0])
    assert printed[0] == printed[1]
    assert "digits-vit" in printed[0]
    assert outcomes(tmp_path / "one") == outcomes(tmp_path / "node")


def test_the_part_of_a_killed_rank_is_measured_by_the_others(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = small_suite(**{"audit: false": "audit: false\nbatches_per_shard: 1"}), tmp_path / "results"
    first, second = (start(rank, suite, results, 2) for rank in range(2))
    while not FolderStore(results).keys():
        assert second.poll() is None
        time.sleep(0.05)
    second.send_signal(signal.SIGKILL)
    second.communicate()
    stdout, stderr = first.communicate()
    assert first.returncode == 0, stderr
    assert "digits-vit" in stdout
    assert len(outcomes(results)) == 9


def test_a_second_start_measures_what_killed_ranks_left(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = small_suite(**{"audit: false": "audit: false\nbatches_per_shard: 1"}), tmp_path / "results"
    killed = start(1, suite, results, 2)
    while not FolderStore(results).keys():
        assert killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    ended = [each.communicate() for each in [start(rank, suite, results, 2) for rank in range(2)]]
    assert "digits-vit" in ended[0][0], ended[0][1]
    assert len(outcomes(results)) == 9
