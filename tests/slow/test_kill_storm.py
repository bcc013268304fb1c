"""Runs that are killed at random moments, and runs at once on one folder."""

from collections.abc import Callable
from pathlib import Path

from conftest import ROOT, Robench
from killed_runs import begin, check_kills_of, check_that_kills_change_no_byte, model_options, sorted_outcomes

SUITES = ROOT / "suites"


def test_a_run_killed_twenty_times_ends_with_the_same_bytes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    check_that_kills_change_no_byte(robench, small_suite, tmp_path, num_kills=20)


def test_language_models_killed_six_times_have_the_same_outcomes(robench: Robench, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text((SUITES / "sotu-swap.yaml").read_text().replace("batches_per_shard: 3", "batches_per_shard: 1"))
    options = ["--suite", str(suite), "--limit", "4", *model_options(("sotu-lm", "sotu-rpc-lm"))]
    check_kills_of(robench, options, tmp_path, num_kills=6)


def test_two_runs_at_once_share_the_work(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{"batch_size: 50": "batch_size: 10"})
    runs = [begin(suite, tmp_path / "shared", "--executor", "serial", "--json") for _ in range(2)]
    texts = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], texts
    # Both wait for the other's last shards, so that both have the whole table.
    assert texts[0][0] == texts[1][0]
    alone = begin(suite, tmp_path / "alone", "--executor", "serial", "--json")
    assert alone.communicate()[0] == texts[0][0]
    assert sorted_outcomes(tmp_path / "shared") == sorted_outcomes(tmp_path / "alone")
