"""``robench audit`` as a user calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

Robench = Any
ARGUMENTS = ("audit", "--model", "digits-vit", "--num-examples", "4", "--device", "cpu")


def test_a_published_model_is_audited_and_nothing_is_raised(robench: Robench) -> None:
    ended = robench(*ARGUMENTS)
    assert ended.code == 0, ended.stdout + ended.stderr
    assert "Nothing is raised." in ended.stdout
    assert "random search beats gradients" in ended.stdout


def test_json_holds_every_flag_and_a_raised_one_ends_with_1(robench: Robench) -> None:
    ended = robench("audit", "--model", "digits-mom-vit", "--num-examples", "4", "--device", "cpu", "--json")
    flags = {flag["name"]: flag for flag in json.loads(ended.stdout)}
    assert ended.code == 1
    assert flags["random victim"]["is_raised"]
    assert "num_draws" in flags["random victim"]["advice"]


def test_the_model_that_is_known_to_be_broken_is_found_out(robench: Robench) -> None:
    ended = robench("audit", "--model", "digits-quantized-vit", "--num-examples", "4", "--device", "cpu", "--json")
    flags = {flag["name"]: flag["is_raised"] for flag in json.loads(ended.stdout)}
    assert ended.code == 1
    raised = {name for name, is_raised in flags.items() if is_raised}
    assert {"zero gradients", "unavailable gradients", "right at any distance"} <= raised
    assert "coupled rows" not in raised


# Says neither how nor on what it was trained.
UNTOLD = """
checkpoints:
  untold:
    architecture: {backbone: timm, name: resnet10t, arguments: {num_classes: 10}}
    weights: {uri: nowhere.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
"""


def test_what_cannot_be_audited_is_refused_with_its_reason(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "registry.yaml").write_text(UNTOLD)
    for arguments, message in (
        (("--model", "digits-vitt"), "Did you mean 'digits-vit'?"),
        (("--model", "digits-vit", "--epsilon", "8%"), "--epsilon must be a number such as 8/255"),
        (("--model", "digits-vit", "--epsilon", "8"), "epsilon must lie above 0 and at most 1"),
        (("--model", "digits-vit", "--dataset", "digit"), "unknown dataset 'digit'"),
        (
            ("--model", "sotu-lm"),
            "is for language-modeling, which has no audit; audits are of models for classification",
        ),
        (("--model", "sotu-eras-softmax"), "is for texts, which have no audit; audits are of inputs that can be moved"),
        (("--model", "untold", "--registry", "registry.yaml"), "name it with --dataset"),
    ):
        ended = robench("audit", *arguments)
        assert ended.code == 2, ended.stderr
        assert message in ended.stderr
