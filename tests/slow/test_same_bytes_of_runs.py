"""The same outcomes, byte for byte, of several models, orders, shards, parts and merged stores."""

from collections.abc import Callable
from pathlib import Path

from conftest import Robench
from killed_runs import MODELS, model_options, sorted_outcomes

from robench.store import FolderStore


def test_one_worker_two_workers_and_another_order_give_the_same_bytes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_examples: 150": "num_examples: 100"})
    layouts = {
        "serial": [*model_options(MODELS), "--executor", "serial"],
        "two-reversed": [*model_options(MODELS[::-1]), "--workers", "2"],
        "limited-first": [*model_options(MODELS), "--executor", "serial"],
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
    assert len(outcomes) == 18
    assert all(sorted_outcomes(tmp_path / name) == outcomes for name in layouts)


def test_shards_of_several_batches_hold_the_same_outcomes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    whole, cut = small_suite("whole", **{"batch_size: 50": "batch_size: 50\nbatches_per_shard: 3"}), small_suite("cut")
    outcomes, one = {}, ("--model", "digits-vit", "--executor", "serial")
    for suite in (whole, cut):
        results = tmp_path / suite.stem
        assert robench("run", "--suite", suite, *one, "--results", results).code == 0
        records = sorted(
            FolderStore(results).records(lambda header: True),
            key=lambda record: (record.shard.condition, record.shard.start),
        )
        outcomes[suite.stem] = [repr(outcome) for record in records for outcome in record.outcomes]
    assert outcomes["whole"] == outcomes["cut"]
    assert len(outcomes["cut"]) == 450


def test_parts_merged_stores_and_runs_at_once_give_the_outcomes_of_one_run(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_examples: 150": "num_examples: 100"})
    options = ["run", "--suite", suite, "--model", "digits-vit", "--executor", "serial"]
    assert robench(*options, "--results", tmp_path / "whole").code == 0
    outcomes = sorted_outcomes(tmp_path / "whole")
    counts = []
    for number in (1, 2):
        ended = robench(*options, "--part", f"{number}/2", "--results", tmp_path / f"part-{number}")
        assert ended.code == 0
        counts.append(len(sorted_outcomes(tmp_path / f"part-{number}")))
    assert sum(counts) == len(outcomes)
    assert abs(counts[0] - counts[1]) <= 1
    merge = ["store", "merge", tmp_path / "part-1", tmp_path / "part-2", "--results", tmp_path / "merged"]
    assert robench(*merge).code == 0
    assert sorted_outcomes(tmp_path / "merged") == outcomes
    # Into one folder, the second run finds what the first has taken over.
    for number in (1, 2):
        ended = robench(*options, "--part", f"{number}/2", "--take-over", "--results", tmp_path / "shared")
        assert ended.code == 0
        assert sorted_outcomes(tmp_path / "shared") == outcomes
