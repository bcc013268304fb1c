"""Corruptions and natural shifts of the digits, from a suite to its table."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from robench.metrics.corruptions import REFERENCES

Robench = Any
VIT = ("--model", "digits-vit", "--device", "cpu")


def suite_of(path: Path, types: tuple[str, ...], metrics: list[str], **fields: object) -> Path:
    """Write a suite of corruptions of the digits beside the clean ones."""
    corrupted = [
        {
            "name": f"{corruption}-{severity}",
            "perturbation": {"kind": "corruption", "type": corruption, "severity": severity, "constants": "cifar"},
        }
        for corruption in types
        for severity in (1, 2, 3, 4, 5)
    ]
    suite = {
        "name": "corrupted",
        "version": 1,
        "seed": 0,
        "dataset": "digits",
        "batch_size": 100,
        "conditions": [{"name": "clean"}, *corrupted],
        "metrics": metrics,
        **fields,
    }
    path.write_text(json.dumps(suite))
    return path


def cells(stdout: str) -> dict[str, Any]:
    (row,) = json.loads(stdout)["rows"]
    return {key: cell["value"] for key, cell in row["cells"].items()}


@pytest.mark.slow
@pytest.mark.parametrize("corruption", ["fog", pytest.param("impulse_noise", marks=pytest.mark.slow)])
def test_the_reference_model_has_its_own_errors_for_its_unit(robench: Robench, tmp_path: Path, corruption: str) -> None:
    """The constants of digits-vit are what is measured, up to a few images between kinds of CPU."""
    suite = suite_of(tmp_path / "s.yaml", (corruption,), ["corruption_error", "mean_error"])
    ended = robench("run", "--suite", suite, *VIT, "--workers", 1, "--results", tmp_path / "r", "--json")
    measured = cells(ended.stdout)
    error = measured["digits-c/mean_error"]
    assert error == pytest.approx(REFERENCES["digits-c"].corrupted[corruption], abs=5 / 3000)
    ratio = measured[f"digits-c/{corruption}/corruption_error"]
    assert ratio == pytest.approx(error / REFERENCES["digits-c"].corrupted[corruption])


@pytest.mark.slow
def test_the_natural_shifts_of_the_digits_are_measured_and_told_from_letters(robench: Robench, tmp_path: Path) -> None:
    ended = robench("run", "--suite", "digits-shift", *VIT, "--workers", 1, "--results", tmp_path / "r", "--json")
    assert ended.code == 0, ended.stderr
    measured = cells(ended.stdout)
    clean = measured["clean/top1_accuracy"]
    assert all(measured[f"{name}/top1_accuracy"] < clean for name in ("digits-a", "digits-r", "digits-sketch"))
    # Better than chance, which is the share of positives for AUPR, and 1/2 for AUROC.
    assert measured["digits-o/aupr"] > 440 / 1040
    assert measured["digits-o/auroc"] > float(Fraction(1, 2))
    assert 0 < measured["digits-o/fpr95"] < 0.95
    assert "digits-o/top1_accuracy" not in measured
