"""Verdicts on the authors' weights are reached from a user's registry."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Robench
from PIL import Image
from test_given_weights import GIVEN, SUITE, registry_of

from robench.declare import published, read_registry, shipped_registry
from robench.models.build import build

# 13 of 18 are 72.2 %.
NUM_RIGHT, NUM_WRONG = 13, 5
TABLE = """\
paper: mine
table: 1
title: Clean accuracy of DeiT-tiny, as printed and otherwise
source: Me 2026
text: mine.txt
caption_line: 1
runs: 1
claims: none
reason: one model in every row
defaults: {unit: "%", model: deit-tiny, suite: imagenet-adv, condition: clean, metric: top1_accuracy,
           protocol: {dataset: imagenet-1k, examples: 18}}
columns: [{name: Clean}]
rows:
  - {label: as printed, line: 1, lines: ["72.2"], printed: ["72.2"]}
  - {label: otherwise, line: 2, lines: ["74.5"], printed: ["74.5"]}
"""


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    for wnid, number in (("n01440764", NUM_RIGHT), ("n01443537", NUM_WRONG)):
        folder = root / "imagenet-1k" / "val" / wnid
        folder.mkdir(parents=True)
        for index in range(number):
            pixels = generator.integers(0, 255, (256, 256, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"ILSVRC2012_val_{index:08}.JPEG")
    return root


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of DeiT-tiny's layout that always answer with the first class."""
    torch.manual_seed(0)
    state = build(read_registry(shipped_registry())["deit-tiny"].architecture).state_dict()
    state["head.bias"][0] = 100.0
    path: Path = tmp_path_factory.mktemp("weights") / "random.pth"
    torch.save({"model": state}, path)
    return path


@pytest.fixture
def _printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shipped" / "reports" / "published"
    folder.mkdir(parents=True)
    (folder / "mine-1.yaml").write_text(TABLE)
    monkeypatch.setattr(published, "shipped_folder", lambda: tmp_path / "shipped")


@pytest.mark.usefixtures("_printed")
def test_verdicts_on_the_authors_weights_are_reached_from_a_users_registry(
    robench: Robench, data_root: Path, weights: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    results = tmp_path / "results"
    (tmp_path / "suite.yaml").write_text(SUITE.format(name="clean", batch_size=50, dataset="imagenet-1k"))

    def registry(sha256: str, declared: str) -> tuple[str, Path]:
        fields = {"entry": "deit-tiny", "uri": weights, "layout": "deit", "sha256": sha256, "declared": declared}
        return "--registry", registry_of(tmp_path, GIVEN.format(name="mine", **fields))

    def verdicts() -> list[dict[str, Any]]:
        ended = robench("table", "mine:1", "--results", results, "--registry", tmp_path / "mine.yaml", "--json")
        assert ended.code == 0, ended.stderr
        return [row["cells"]["Clean"] for row in json.loads(ended.stdout)["rows"]]

    by_authors = ", by: authors, source: their page"
    given = registry(f"'{digest}'", by_authors)
    run = ("--suite", tmp_path / "suite.yaml", "--model", "mine", "--data-root", data_root, "--results", results)
    ended = robench("run", *run, *given, "--executor", "serial", "--no-audit")
    assert ended.code == 0, ended.stderr
    as_printed, otherwise = verdicts()
    assert as_printed["measured"] == pytest.approx(100 * NUM_RIGHT / (NUM_RIGHT + NUM_WRONG))
    assert (as_printed["verdict"], otherwise["verdict"]) == ("reproduced", "differs")
    # The published file has another checksum, so that the same weights are not the authors' by themselves.
    registry("null", by_authors)
    assert [each["verdict"] for each in verdicts()] == ["one seed", "one seed"]
    registry("null", "")
    assert [each["verdict"] for each in verdicts()] == ["one seed", "one seed"]
