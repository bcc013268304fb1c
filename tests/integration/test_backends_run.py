"""A suite that runs another library's attack, from YAML to the table."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Robench

from robench.attacks.backends import installed

LIBRARY_PGD = "{kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 4, returns: last, backend: torchattacks}}"
OWN_PGD = "{kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 4}}"


@pytest.fixture
def suite(small_suite: Callable[..., Path]) -> Path:
    return small_suite(**{OWN_PGD: LIBRARY_PGD})


def test_the_table_says_which_numbers_depend_on_the_batch(robench: Robench, suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", suite, "--model", "digits-vit", "--executor", "serial", "--results", tmp_path / "r")
    ended = robench(*command)
    assert ended.code == 0
    assert "pgd: batch-dependent: pgd by torchattacks" in ended.stdout
    assert "fgsm: batch-dependent" not in ended.stdout
    report = robench("report", "--suite", suite, "--results", tmp_path / "r", "--format", "json").stdout
    assert "batch-dependent: pgd by torchattacks" in report
    assert json.loads(report)["provenance"]["torchattacks"] == "3.5.1"


def test_exact_numbers_carry_no_such_note(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    exact = LIBRARY_PGD.replace("torchattacks", "torchattacks, exact: true").replace("num_steps: 4", "num_steps: 1")
    suite = small_suite(**{OWN_PGD: exact, "num_examples: 150": "num_examples: 10", "batch_size: 50": "batch_size: 10"})
    ended = robench("run", "--suite", suite, "--model", "digits-vit", "--executor", "serial", "--results", tmp_path)
    assert ended.code == 0
    assert "batch-dependent" not in ended.stdout


def test_a_missing_library_stops_the_run_before_it_begins(
    robench: Robench, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    ended = robench("run", "--suite", suite, "--model", "digits-vit", "--results", tmp_path / "r")
    assert ended.code == 2
    assert "pip install --no-deps torchattacks==3.5.1" in ended.stderr
    assert not list((tmp_path / "r").rglob("*.parquet"))


def test_what_a_library_has_not_is_said_with_its_line(robench: Robench, small_suite: Callable[..., Path]) -> None:
    suite = small_suite(**{OWN_PGD: LIBRARY_PGD.replace("returns: last", "returns: best")})
    ended = robench("validate", suite)
    assert ended.code == 2
    assert "perturbation.returns: must be last with backend torchattacks, which has no other, got best" in ended.stderr
