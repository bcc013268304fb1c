"""Sweeps, stated distances and several predictions from a file to the table."""

import json
from pathlib import Path
from typing import Any

from conftest import Robench

from robench.store import FolderStore

SWEEPS = """\
name: sweeps
version: 1
seed: 0
dataset: digits
batch_size: 20
conditions:
  - {name: clean, num_examples: 40}
  - {name: alone, num_examples: 40, perturbation: {kind: pgd, epsilon: 8/255, relative_step: 1/4, num_steps: 2}}
  - name: sweep
    num_examples: 40
    perturbation: {kind: pgd, epsilons: [0, 4/255, 8/255], relative_step: 1/4, num_steps: 2}
  - name: carry
    num_examples: 40
    perturbation: {kind: pgd, epsilons: [4/255, 8/255], relative_step: 1/4, num_steps: 2, carry: true}
  - name: fab
    num_examples: 20
    distances: [1/100, 3]
    perturbation: {kind: fab, norm: l2, num_steps: 3, num_targets: 1}
metrics: [top1_accuracy, robust_accuracy, accuracy_at_distance, median_distance]
audit: false
"""
PREDICTIONS = """\
name: predictions
version: 1
seed: 0
dataset: digits
batch_size: 50
conditions:
  - {name: once, num_examples: 100}
  - {name: often, num_examples: 100, num_predictions: 4}
metrics: [top1_accuracy, mean_accuracy, worst_accuracy]
audit: false
"""


def cells_of(robench: Robench, folder: Path, text: str, model: str, *options: object) -> dict[str, Any]:
    suite = folder / "suite.yaml"
    suite.write_text(text)
    ended = robench("run", "--suite", suite, "--model", model, "--executor", "serial", *options, "--json")
    assert ended.code == 0, ended.stderr
    cells: dict[str, Any] = json.loads(ended.stdout)["rows"][0]["cells"]
    return cells


def test_a_sweep_goes_from_the_file_to_the_table(robench: Robench, tmp_path: Path) -> None:
    results = tmp_path / "r"
    cells = cells_of(robench, tmp_path, SWEEPS, "digits-vit", "--results", results)
    value = {key: cell["value"] for key, cell in cells.items()}
    assert value["sweep@0/top1_accuracy"] == value["clean/top1_accuracy"] == value["linf-0/robust_accuracy"]
    # The sweep's budget and the attack alone are the same, draws included.
    assert cells["sweep@8/255/top1_accuracy"] == cells["alone/top1_accuracy"]
    assert value["sweep@4/255/top1_accuracy"] > value["sweep@8/255/top1_accuracy"]
    assert value["carry@4/255/top1_accuracy"] == value["sweep@4/255/top1_accuracy"]
    assert value["carry@8/255/top1_accuracy"] <= value["carry@4/255/top1_accuracy"]
    attacks = ("alone", "sweep@8/255", "carry@8/255")
    assert value["linf-8/255/robust_accuracy"] <= min(value[f"{each}/top1_accuracy"] for each in attacks)
    assert value["fab@l2 0.01/accuracy_at_distance"] >= value["fab@l2 3/accuracy_at_distance"]
    assert 0.01 < cells["fab/median_distance"]["low"] <= value["fab/median_distance"]
    files = {path: path.stat().st_mtime_ns for path in results.rglob("*.parquet")}
    again = robench("report", "--suite", tmp_path / "suite.yaml", "--results", results, "--json")
    assert json.loads(again.stdout)["rows"][0]["cells"] == cells
    assert len(files) == 4 * 2 + 1
    rows = json.loads(robench("status", "--suite", tmp_path / "suite.yaml", "--results", results, "--json").stdout)
    assert [(row["condition"], row["kept"], row["missing"]) for row in rows] == [
        ("clean", 40, 0),
        ("alone", 40, 0),
        ("sweep", 40, 0),
        ("carry", 40, 0),
        ("fab", 20, 0),
    ]


def test_a_limited_sweep_is_of_the_first_examples(robench: Robench, tmp_path: Path) -> None:
    text = SWEEPS.replace("[top1_accuracy, robust_accuracy, accuracy_at_distance, median_distance]", "[top1_accuracy]")
    results = tmp_path / "r"
    cells = cells_of(robench, tmp_path, text, "digits-vit", "--results", results, "--limit", 10)
    assert {(cell["num_examples"], cell["missing"]) for cell in cells.values()} == {(10, 0)}
    kept = list(FolderStore(results).records(lambda shard: shard.condition == "sweep"))
    assert [len(record.outcomes) for record in kept] == [20 * 3]


def test_several_predictions_are_read_as_mean_and_worst(robench: Robench, tmp_path: Path) -> None:
    cells = cells_of(robench, tmp_path, PREDICTIONS, "digits-mom-vit", "--results", tmp_path / "r")
    value = {key: cell["value"] for key, cell in cells.items()}
    assert value["once/mean_accuracy"] == value["once/worst_accuracy"] == value["once/top1_accuracy"]
    # The first prediction is the same however many are made.
    assert value["often/top1_accuracy"] == value["once/top1_accuracy"]
    assert value["often/worst_accuracy"] <= min(value["often/mean_accuracy"], value["often/top1_accuracy"])


def test_what_a_sweep_can_be_asked_for_is_shown(robench: Robench) -> None:
    shown = robench("show", "sweep").stdout
    assert "epsilons" in shown
    assert "carry:" in shown
