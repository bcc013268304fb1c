"""``robench strength`` and ``robench figure optimality`` on a model of the digits."""

import json
from pathlib import Path

import pytest
from conftest import Robench

SUITE = """
name: few
version: 1
seed: 0
dataset: digits
batch_size: 20
audit: false
conditions:
  - {name: clean}
  - {name: fab, perturbation: {kind: fab, num_steps: 4, num_targets: 2}}
  - {name: sweep, perturbation: {kind: fgsm, epsilons: [4/255, 16/255]}}
  - {name: noise, perturbation: {kind: uniform-noise, epsilon: 8/255}}
metrics: [top1_accuracy]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "few.yaml"
    path.write_text(SUITE)
    return path


def test_missing_attacks_are_measured_once_and_shown_and_drawn(robench: Robench, suite: Path, tmp_path: Path) -> None:
    of = ("--suite", suite, "--model", "digits-vit", "--limit", 20, "--results", tmp_path / "r")
    asked = ("strength", *of, "--executor", "serial")
    ended = robench(*asked, "--json")
    assert ended.code == 0
    found = json.loads(ended.stdout)
    (group,) = found["groups"]
    assert (group["name"], group["dataset"], group["num_examples"]) == ("linf", "digits", 20)
    fab, sweep = group["attacks"]
    assert fab["optimality"]["value"] > sweep["optimality"]["value"] > 0
    assert fab["median"] < 16 / 255
    assert fab["num_queries"] > sweep["num_queries"] > 0
    assert [note.split()[0] for note in found["notes"]] == ["noise"]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("*") if path.is_file()}
    # What is left out is not measured.
    assert len(list((tmp_path / "r").rglob("*.parquet"))) == 3
    again = robench(*asked, "--format", "markdown")
    assert again.code == 0
    assert again.stdout.startswith("# Strength of the attacks of few\n\n## digits-vit, linf on digits: 20 images, R = ")
    assert f"{100 * sweep['optimality']['value']:.1f} [" in again.stdout
    figure = tmp_path / "o.svg"
    assert robench("figure", "optimality", *of, "--output", figure).code == 0
    assert figure.read_bytes().startswith(b"<?xml")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("*") if path.is_file()} == before


def test_a_suite_without_two_attacks_in_a_norm_is_refused(robench: Robench, suite: Path, tmp_path: Path) -> None:
    suite.write_text("\n".join(line for line in SUITE.splitlines() if "name: fab" not in line))
    ended = robench("strength", "--suite", suite, "--model", "digits-vit", "--results", tmp_path / "r")
    assert ended.code == 2
    assert "no two attacks" in ended.stderr
    assert "sweep is left out: it is alone in linf on digits" in ended.stderr
