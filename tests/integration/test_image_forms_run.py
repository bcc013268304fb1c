"""A run over ImageNet in one form has the keys and the outcomes of a run over another."""

from pathlib import Path
from typing import Any

import image_forms
import pytest
import torch
from torch import nn

import robench
from robench.store import FolderStore

SUITE = """\
name: small-imagenet
version: 1
dataset: imagenet-1k
batch_size: 10
seed: 0
conditions:
  - name: clean
  - name: fgsm
    perturbation: {kind: fgsm, epsilon: 1/255}
metrics: [top1_accuracy]
"""
PREPROCESSING = {"mean": [0.5] * 3, "std": [0.5] * 3, "resize": 40, "crop": 32}


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 8, stride=8), nn.GELU(), nn.Flatten(), nn.Linear(128, 1000))


def run(suite: Path, data_root: Path, results: Path) -> int:
    """Return how many shards were measured."""
    num_done = [0]
    robench.run(
        suite,
        {"mine": (model(), PREPROCESSING)},
        results=results,
        data_root=data_root,
        device="cpu",
        on_progress=lambda progress: num_done.append(progress.num_done),
    )
    return max(num_done)


def outcomes(results: Path) -> list[Any]:
    return sorted((record.shard.key, record.outcomes) for record in FolderStore(results).records(lambda header: True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [image_forms.parquet, pytest.param(image_forms.published_tar, marks=pytest.mark.slow)],
    ids=lambda form: form.__name__,
)
def test_outcomes_and_keys_are_those_of_class_folders(tmp_path: Path, form: Any) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    image_forms.class_folders(tmp_path / "folders")
    form(tmp_path / "packed")
    suite = tmp_path / "suite.yaml"
    assert run(suite, tmp_path / "folders", tmp_path / "a") == run(suite, tmp_path / "packed", tmp_path / "b") >= 8
    expected, found = outcomes(tmp_path / "a"), outcomes(tmp_path / "b")
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert [[*of_shard] for _, of_shard in found] == [[*of_shard] for _, of_shard in expected]
    assert run(suite, tmp_path / "packed", tmp_path / "a") == 0
