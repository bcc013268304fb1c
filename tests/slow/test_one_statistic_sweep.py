"""Two hundred simulated stores: every command calls the same models different."""

import json
from pathlib import Path

import pytest
from conftest import Robench
from simulated_tables import MODELS, check_same_marks, simulated

from robench.store import FolderStore

SMALL = """
name: small
version: 1
dataset: digits
seed: 0
batch_size: 2
conditions:
  - {name: clean}
  - {name: fgsm, perturbation: {kind: fgsm, epsilon: 8/255}}
metrics: [top1_accuracy]
audit: false
"""


@pytest.mark.parametrize("num_seeds", [1, 5])
@pytest.mark.parametrize("seed", range(100))
def test_every_command_calls_the_same_models_different(seed: int, num_seeds: int) -> None:
    check_same_marks(100 + seed, num_seeds)


@pytest.mark.parametrize("seed", range(5))
def test_commands_call_the_same_models_different(seed: int, robench: Robench, tmp_path: Path) -> None:
    """The table in Markdown has the best, and models not distinguishable from it, in bold."""
    suite, results = tmp_path / "small.yaml", tmp_path / "results"
    suite.write_text(SMALL)
    store = FolderStore(results)
    for each in simulated(seed, 1).records(lambda shard: True):
        store.put(each)
    chosen = ("--suite", suite, "--results", results)
    models = [option for model in MODELS for option in ("--model", model)]
    robench("leaderboard", *chosen, *models, "--format", "json", "--output", tmp_path / "board.json")
    board = json.loads((tmp_path / "board.json").read_text())
    table = robench("report", *chosen, *models, "--format", "md").stdout
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    bold = {line[0]: [cell.startswith("**") for cell in line[1:]] for line in lines[2:]}
    for place, column in enumerate(board["columns"]):
        cells = {row["model"]: row["cells"][column["key"]] for row in board["rows"]}
        close = {model for model, cell in cells.items() if cell["is_close"]}
        assert {model for model in MODELS if bold[model][place]} == close
        (best,) = [model for model, cell in cells.items() if cell["is_best"]]
        for model in {*MODELS} - {best}:
            document = json.loads(robench("compare", best, model, *chosen, "--format", "json").stdout)
            (row,) = [row for row in document["rows"] if row["column"] == column["column"]]
            assert (row["p"], row["test"]) == (cells[model]["p"], cells[model]["test"])
            assert row["p_corrected"] == min(1.0, row["p"] * len(board["columns"]))
            assert (min(1.0, row["p_corrected"] * (len(MODELS) - 1)) > 0.05) == (model in close)
