"""Weights of a user's registry that belong to a shipped entry count for it in papers' tables."""

import json
from pathlib import Path

import pytest
import torch
from conftest import Robench
from safetensors.torch import load_file, save_file

from robench.declare import shipped_folder

SUITE = """\
name: {name}
version: 1
seed: 0
batch_size: {batch_size}
conditions: [{{name: clean, dataset: {dataset}}}]
metrics: [top1_accuracy]
"""
GIVEN = "  {name}: {{of: {entry}, weights: {{uri: {uri}, layout: {layout}, sha256: {sha256}{declared}}}}}\n"


def registry_of(folder: Path, *entries: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text("checkpoints:\n" + "".join(entries))
    return path


@pytest.mark.slow
def test_three_files_with_the_same_tensors_are_one_training(robench: Robench, tmp_path: Path) -> None:
    shipped = shipped_folder() / "checkpoints"
    state = load_file(shipped / "digits-symvit.safetensors")
    save_file(state, tmp_path / "a.safetensors", {"made": "again"})
    torch.save({"model": state, "epoch": 3}, tmp_path / "b.pth")
    (tmp_path / "c.safetensors").write_bytes((shipped / "digits-symvit-seed1.safetensors").read_bytes())
    layouts = {"a.safetensors": "plain", "b.pth": "deit", "c.safetensors": "plain"}
    fields = {"entry": "digits-symvit", "sha256": "null", "declared": ""}
    registry = registry_of(
        tmp_path,
        *(GIVEN.format(name=uri[0], uri=uri, layout=layout, **fields) for uri, layout in layouts.items()),
    )
    results = tmp_path / "results"
    (tmp_path / "suite.yaml").write_text(SUITE.format(name="clean", batch_size=100, dataset="digits"))
    models = [word for name in ("digits-symvit", "a", "b", "c") for word in ("--model", name)]
    run = ("--suite", tmp_path / "suite.yaml", *models, "--registry", registry, "--results", results)
    ended = robench("run", *run, "--executor", "serial", "--no-audit")
    assert ended.code == 0, ended.stderr
    ended = robench("table", "rpc:1", "--twin", "--results", results, "--registry", registry, "--json")
    (twin,) = (row for row in json.loads(ended.stdout)["rows"] if row["model"] == "digits-symvit")
    assert twin["cells"]["digits-shift/clean/top1_accuracy"]["num_seeds"] == 2
