"""The example of a regression gate: checkpoints of CIFAR-10 are as good as its committed baseline says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from conftest import ROOT
from snippets import snippets

import robench
from robench.papers.archive import unpacked

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from conftest import Robench

BASELINE = ROOT / "examples" / "cifar10-gate" / "baseline.parquet"
PAGE = ROOT / "docs" / "cifar10.md"


def test_no_published_checkpoint_is_worse_than_its_baseline(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the gate itself, by the page's command: CI measures six models on 64 images and checks them."""
    monkeypatch.chdir(BASELINE.parent)
    (snippet,) = (each for each in snippets(PAGE.read_text()) if "test_cifar10_gate" in each.why)
    ((command, code),) = snippet.commands
    ended = robench(*command[1:], "--results", tmp_path, "--json")
    cells = json.loads(ended.stdout)["cells"]
    assert [each for each in cells if each["verdict"] != "passed"] == []
    assert (ended.code, len(cells)) == (code, 6 * 4)


def test_its_images_are_the_first_of_the_whole_measurement() -> None:
    """Clean images and FGSM draw nothing at random, so that both have the same outcomes up to rounding."""
    gate = pq.read_table(BASELINE).to_pylist()
    with unpacked(ROOT / "reports" / "cifar10.tar.xz") as results:
        for model in ("cifar10-vit", "cifar10-rpc-symvit"):
            whole = robench.outcomes("cifar10-adv", [model], results=results).to_pylist()
            for ours, theirs in (("clean", "clean"), ("fgsm", "fgsm-1")):
                first = [row["prediction"] for row in whole if row["condition"] == theirs][:64]
                rows = [row for row in gate if (row["model"], row["condition"]) == (model, ours)]
                found = [row["prediction"] for row in sorted(rows, key=lambda row: row["example_id"])]
                assert sum(one != other for one, other in zip(found, first, strict=True)) <= 1
