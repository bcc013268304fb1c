"""Shifted and corrupted digits in worker processes."""

from pathlib import Path

from test_shifts import VIT, Robench, suite_of

from robench.corruptions import COMMON_CORRUPTIONS
from robench.store import FolderStore


def test_a_worker_process_and_none_give_the_same_bytes(robench: Robench, tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s.yaml", COMMON_CORRUPTIONS, ["mean_corruption_error", "corruption_error"])
    outcomes = {}
    for executor in ("serial", "processes"):
        results, how = tmp_path / executor, ("--executor", executor, "--workers", 1)
        ended = robench("run", "--suite", suite, *VIT, "--limit", 8, "--no-audit", *how, "--results", results)
        assert ended.code == 0, ended.stderr
        records = FolderStore(results).records(lambda shard: True)
        outcomes[executor] = ended.stdout, sorted(f"{each.shard.key} {each.outcomes!r}" for each in records)
    assert outcomes["serial"] == outcomes["processes"]
