"""The example of a regression gate: checkpoints of CIFAR-10 are as good as its committed baseline says."""

import json
from pathlib import Path

import pytest
from conftest import ROOT, Robench
from snippets import snippets

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
