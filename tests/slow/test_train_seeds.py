"""Further training seeds, from the command to their row."""

import json
from pathlib import Path

import pytest
from conftest import Robench
from test_train import own_registry

from robench.declare import read_registry
from robench.models.loading import resolve


def test_further_seeds_become_one_row_with_their_entry(robench: Robench, tmp_path: Path) -> None:
    registry = own_registry(tmp_path, num_epochs=1)
    assert robench("train", "mine", "--registry", registry, "--seeds", "0-1,3").code == 0
    found = {name: each for name, each in read_registry(registry).items() if name.startswith("mine")}
    assert {"mine", "mine@1", "mine@3"} <= found.keys()
    assert len({resolve(found[name])[1] for name in ("mine", "mine@1", "mine@3")}) == 3
    chosen = ("--suite", "digits-adv", "--registry", registry, "--model", "mine", "--results", tmp_path / "r")
    limits = ("--limit", 20, "--no-audit", "--executor", "serial", "--json")
    ended = robench("run", *chosen, *limits, "--all-seeds")
    assert ended.code == 0
    (row,) = json.loads(ended.stdout)["rows"]
    assert row["seeds"] == ["mine", "mine@1", "mine@3"]
    cell = row["cells"]["clean/top1_accuracy"]
    assert len(cell["of_seeds"]) == 3
    assert cell["value"] == pytest.approx(sum(cell["of_seeds"]) / 3)
    reported = robench("report", *chosen, "--limit", 20, "--all-seeds", "--json")
    assert json.loads(reported.stdout) == json.loads(ended.stdout)
    alone = robench("report", *chosen, "--limit", 20, "--json")
    (single,) = json.loads(alone.stdout)["rows"]
    assert single["cells"]["clean/top1_accuracy"]["value"] == cell["of_seeds"][0]
