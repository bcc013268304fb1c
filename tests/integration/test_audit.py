"""``robench audit`` as a user calls it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_models import write_registry
from torch.nn.functional import one_hot

from robench.core.flags import Flag
from robench.core.protocols import Batch
from robench.evaluation.model_checks import clean_accuracy

Robench = Any
ARGUMENTS = ("audit", "--model", "digits-vit", "--num-examples", "4", "--device", "cpu")


@pytest.mark.slow
def test_a_published_model_is_audited_and_nothing_is_raised(robench: Robench) -> None:
    ended = robench(*ARGUMENTS)
    assert ended.code == 0, ended.stdout + ended.stderr
    assert "Nothing is raised." in ended.stdout
    assert "random search beats gradients" in ended.stdout


def test_flags_are_raised_and_told_by_the_exit_code(robench: Robench, tmp_path: Path) -> None:
    registry = write_registry(tmp_path)
    options = ("--registry", registry, "--dataset", "digits", "--num-examples", "4", "--device", "cpu", "--json")
    ended = robench("audit", "--model", "noisy", *options)
    assert ended.code == 1
    assert {flag["name"] for flag in json.loads(ended.stdout) if flag["is_raised"]} >= {"random victim"}


@pytest.mark.slow
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
    (tmp_path / "tiny").mkdir()
    tiny = write_registry(tmp_path / "tiny")
    for arguments, message in (
        (("--model", "digits-vitt"), "Did you mean 'digits-vit'?"),
        (("--model", "digits-vit", "--epsilon", "8%"), "--epsilon must be a number such as 8/255"),
        (("--model", "digits-vit", "--epsilon", "8"), "epsilon must be at most 1 for images in [0, 1], got 8"),
        (("--model", "digits-vit", "--dataset", "digit"), "unknown dataset 'digit'"),
        (
            ("--model", "sotu-lm"),
            "is for language-modeling, which has no audit; audits are of models for classification",
        ),
        (("--model", "sotu-eras-softmax"), "is for texts, which have no audit; audits are of images, series"),
        (("--model", "untold", "--registry", "registry.yaml"), "name it with --dataset"),
        (
            ("--model", "noisy", "--registry", tiny, "--dataset", "digits", "--attention"),
            "cannot be audited for attention: pgd reads attention: nothing can be seen of the model",
        ),
    ):
        ended = robench("audit", *arguments)
        assert ended.code == 2, ended.stderr
        assert message in ended.stderr
        assert "attacked in some ten ways" not in ended.stderr


def test_what_is_missing_is_told_before_work_is_announced(robench: Robench, tmp_path: Path) -> None:
    ended = robench("audit", "--model", "deit-tiny", "--data-root", tmp_path)
    assert ended.code == 4
    assert "attacked in some ten ways" not in ended.stderr


STATED = """
checkpoints:
  wrong:
    architecture:
      {{backbone: vit, image_size: 32, patch_size: 8, num_classes: 10, depth: 4, dim: 64, num_heads: 4, mlp_ratio: 2}}
    weights: {{uri: {root}/checkpoints/digits-vit.safetensors, sha256: null}}
    preprocessing: {{kind: image, mean: [{mean}, {mean}, {mean}], std: [{std}, {std}, {std}]}}
    trained_on: digits
    expected: {{top1_accuracy: {expected}}}
"""


class TestCleanAccuracy:
    """A model with stated answers, so that every number is known."""

    def flag(self, num_right: int, expected: float | None, mean: float = 0.5) -> Flag:
        targets = torch.arange(20) % 10
        guesses = torch.where(torch.arange(20) < num_right, targets, (targets + 1) % 10)
        inputs = torch.linspace(0, 1, 20 * 3 * 4).reshape(20, 3, 2, 2)
        model: Any = SimpleNamespace(normalisation=(torch.full((3, 1, 1), mean), torch.full((3, 1, 1), 0.29)))
        batch = Batch(ids=tuple(map(str, range(20))), inputs=inputs, targets=targets)
        return clean_accuracy(model, batch, one_hot(guesses, 10).float(), expected)

    @pytest.mark.parametrize(
        ("num_right", "expected", "is_raised"),
        [(20, 0.9, False), (15, 0.9, False), (5, 0.9, True), (5, 0.3, False), (1, None, True), (12, None, False)],
    )
    def test_far_fewer_than_expected_or_no_more_than_by_chance(
        self, num_right: int, expected: float | None, is_raised: bool
    ) -> None:
        flag = self.flag(num_right, expected)
        assert (flag.is_raised, flag.value) == (is_raised, num_right / 20)
        assert ("chance is 10.0%" in flag.finding) == (expected is None)
        assert "the order of its classes" in flag.advice

    def test_what_does_not_fit_the_pixels_is_named_first(self) -> None:
        flag = self.flag(1, 0.9, mean=124.0)
        assert flag.advice.startswith(
            "first suspect mean and std of its preprocessing, which give these images the mean -4.3e+02"
        )
