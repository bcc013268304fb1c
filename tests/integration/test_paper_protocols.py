"""The papers' protocols on digits, end to end, and attacks that stop at success as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

Robench = Any
ROOT = Path(__file__).parents[2]
SHORTER = {
    "num_steps: 20,": "num_steps: 5,",
    "num_steps: 10,\n       learning_rate": "num_steps: 2,\n       learning_rate",
    "num_samples: 128": "num_samples: 16",
    "num_steps: 100, num_search_steps: 5": "num_steps: 10, num_search_steps: 2",
    "num_steps: 10,": "num_steps: 3,",
    "num_restarts: 3": "num_restarts: 1",
    "num_targets: 3": "num_targets: 1",
    "num_queries: 200": "num_queries: 40",
}
STOPPING = """
name: stopping
version: 1
seed: 0
dataset: digits
batch_size: 20
batches_per_shard: 3
conditions:
  - {name: clean, num_examples: 60}
  - {name: whole, num_examples: 60, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 10}}
  - name: stopping
    num_examples: 60
    perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 10, stop: at_success}
metrics: [METRICS]
audit: false
"""


def cells_of(ended: Any) -> dict[str, float]:
    assert ended.code == 0, ended.stderr
    (row,) = json.loads(ended.stdout)["rows"]
    return {key: cell["value"] for key, cell in row["cells"].items()}


@pytest.mark.slow
def test_the_protocol_of_rpc_runs_on_digits_and_says_nothing_of_robustness(robench: Robench, tmp_path: Path) -> None:
    """Fewer steps of what takes long: the protocol with all of its steps and on more images is in tests/slow."""
    whole = (ROOT / "suites" / "digits-adv-rpc.yaml").read_text()
    start, stop = whole.index("  - name: spsa-paper"), whole.index("  # Whatever budget")
    text = whole[:start] + whole[stop:]
    for old, new in SHORTER.items():
        assert old in text
        text = text.replace(old, new)
    suite = tmp_path / "suite.yaml"
    suite.write_text(text)
    ended = robench(
        "run", "--suite", suite, "--model", "digits-vit", "--limit", 4, "--executor", "serial", "--no-audit",
        "--results", tmp_path / "r", "--json",
    )  # fmt: skip
    found = cells_of(ended)
    assert not any("robust" in key for key in found)
    assert found["pgd-6/top1_accuracy"] <= found["pgd-1/top1_accuracy"] <= found["clean/top1_accuracy"]
    # Of the point that is left: what stands is clean, and what fell may still be among the first five.
    for name in ("autoattack", "autoattack-paper", "square", "square-paper"):
        assert found[f"{name}/top1_accuracy"] <= found[f"{name}/top5_accuracy"]


def test_stopping_at_success_changes_no_accuracy(robench: Robench, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(STOPPING.replace("METRICS", "top1_accuracy, robust_accuracy"))
    found = cells_of(
        robench(
            "run",
            "--suite",
            suite,
            "--model",
            "digits-vit",
            "--executor",
            "serial",
            "--results",
            tmp_path / "r",
            "--json",
        )
    )
    assert found["stopping/top1_accuracy"] == found["whole/top1_accuracy"]
    assert 0.05 < found["stopping/top1_accuracy"] < 0.95


def test_a_metric_that_needs_more_than_verdicts_is_refused_with_it(robench: Robench, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(STOPPING.replace("METRICS", "top1_accuracy, top5_accuracy"))
    ended = robench("validate", suite)
    assert ended.code == 2
    assert "top5_accuracy cannot be computed with early stopping, as in stopping" in ended.stderr + ended.stdout


@pytest.mark.slow
def test_it_can_be_read_where_the_point_that_is_left_is_asked_for_by_name(robench: Robench, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    square = "kind: square, epsilon: 16/255, num_queries: 30, p_init: 0.8, stop: at_success, returns: published"
    text = STOPPING[: STOPPING.index("  - {name: whole")]
    condition = f"  - {{name: square, num_examples: 60, perturbation: {{{square}}}}}"
    suite.write_text(f"{text}{condition}\nmetrics: [top1_accuracy, top5_accuracy]\naudit: false\n")
    command = ("run", "--suite", suite, "--model", "digits-vit", "--executor", "serial", "--results", tmp_path / "r")
    ended = robench(*command, "--json")
    found = cells_of(ended)
    assert found["square/top1_accuracy"] < found["square/top5_accuracy"]
    (row,) = json.loads(ended.stdout)["rows"]
    assert (
        "square: scores describe the point that the attack's published code returns, not a worst case" in row["notes"]
    )
