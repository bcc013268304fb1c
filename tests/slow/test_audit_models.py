"""Audits of further published models and of wrong preprocessings."""

import json
from pathlib import Path

import pytest
from conftest import ROOT
from test_audit import STATED, Robench


def test_json_holds_every_flag_and_a_raised_one_ends_with_1(robench: Robench) -> None:
    ended = robench("audit", "--model", "digits-mom-vit", "--num-examples", "4", "--device", "cpu", "--json")
    flags = {flag["name"]: flag for flag in json.loads(ended.stdout)}
    assert ended.code == 1
    assert flags["random victim"]["is_raised"]
    assert "num_draws" in flags["random victim"]["advice"]


@pytest.mark.parametrize(
    ("mean", "std", "expected", "is_raised", "suspect"),
    [
        (0.305, 0.35, 0.98, False, ""),
        # Statistics of pixels from 0 to 255 beside those in [0, 1].
        (0.305, 89.25, 0.98, True, "first suspect mean and std of its preprocessing"),
        (0.0, 255.0, 0.98, True, "first suspect mean and std of its preprocessing"),
    ],
)
def test_a_wrong_mean_or_std_is_a_suspect(
    robench: Robench, tmp_path: Path, mean: float, std: float, expected: float, is_raised: bool, suspect: str
) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(STATED.format(root=ROOT, mean=mean, std=std, expected=expected))
    options = ("--registry", path, "--num-examples", "12", "--device", "cpu", "--json")
    ended = robench("audit", "--model", "wrong", *options)
    clean = {flag["name"]: flag for flag in json.loads(ended.stdout)}["clean accuracy"]
    assert clean["is_raised"] == is_raised, clean
    assert "its registry entry expects 98.0%" in clean["finding"]
    if suspect:
        assert suspect in clean["advice"]
        assert ended.code == 1
