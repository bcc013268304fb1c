"""Classifiers of texts in worker processes, and after an earlier part."""

import json
from pathlib import Path

import pytest
from conftest import Robench
from test_text_classification_run import MODELS, measured

from robench.store import FolderStore


def test_workers_and_an_earlier_part_change_no_outcome(robench: Robench, tmp_path: Path) -> None:
    serial = measured(robench, tmp_path / "serial", "--limit", 60, "--executor", "serial")
    two = measured(robench, tmp_path / "two", "--limit", 60, "--workers", 2)
    measured(robench, tmp_path / "resumed", "--limit", 30, "--executor", "serial")
    resumed = measured(robench, tmp_path / "resumed", "--limit", 60, "--executor", "serial")
    assert serial == two == resumed
    assert len(serial) == 2 * 3 * 6
    ended = robench(
        *("report", "--suite", tmp_path / "suite.yaml", *MODELS, "--limit", 60, "--format", "json"),
        *("--results", tmp_path / "serial"),
    )
    rows = {row["model"]: row["cells"] for row in json.loads(ended.stdout)["rows"]}
    for model, cells in rows.items():
        by_condition: dict[str, list[bool]] = {}
        for record in FolderStore(tmp_path / "serial").records(lambda header, model=model: header.checkpoint == model):
            found = by_condition.setdefault(record.shard.condition, [])
            found += [outcome.correct_top1 for outcome in record.outcomes]
        for condition, right in by_condition.items():
            assert cells[f"{condition}/top1_accuracy"]["value"] == pytest.approx(sum(right) / 60)
        # Of the words that are left, none says anything of the era.
        assert cells["clean/top1_accuracy"]["value"] > cells["all/top1_accuracy"]["value"] + 0.2
