"""Folders shaped as the published sets of shifts go through the shipped suites, under their class masks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from robench.datasets.base import class_indices_of, class_subset
from robench.declare import shipped_suites
from robench.store import FolderStore

Robench = Any
MODEL = "{backbone: timm, name: vit_tiny_patch16_224, arguments: {depth: 1, num_classes: 1000}}"
ENTRY = f"""\
checkpoints:
  small:
    task: classification
    architecture: {MODEL}
    weights: {{uri: small.safetensors, sha256: null}}
    preprocessing: {{kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5], resize: 256, crop: 224}}
    training_data: nothing
    source: this test
    licence: none
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with one small model of random weights."""
    folder: Path = tmp_path_factory.mktemp("registry")
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", depth=1, num_classes=1000)
    save_file(model.state_dict(), folder / "small.safetensors")
    (folder / "registry.yaml").write_text(ENTRY)
    return folder


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two images of each of two classes in every set."""
    root: Path = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    subsets = {name: list(class_subset(f"imagenet-{name}"))[:2] for name in "aro"}
    everywhere = [wnid for wnids in subsets.values() for wnid in wnids]
    sets = {f"imagenet-{name}": wnids for name, wnids in subsets.items()}
    sets |= {"imagenet-1k/val": everywhere, "imagenet-sketch": everywhere, "imagenet-v2": ["7", "999"]}
    types = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
    sets |= {f"imagenet-c/{each}/{severity}": everywhere for each in types for severity in (1, 2, 3, 4, 5)}
    for place, classes in sets.items():
        side = 224 if place.startswith("imagenet-c/") else 260
        for name in dict.fromkeys(classes):
            (root / place / name).mkdir(parents=True)
            for number in range(2):
                pixels = generator.integers(0, 255, (side, side, 3), dtype=np.uint8)
                # ImageNet-C has the validation images' own names.
                Image.fromarray(pixels).save(root / place / name / f"ILSVRC2012_val_{number:08}.JPEG")
    return root


def run(robench: Robench, name: str, folder: Path, data_root: Path, results: Path) -> Any:
    """Run a shipped suite in batches of 4, for a machine without a GPU."""
    text = shipped_suites()[name].read_text()
    assert "batch_size: 100" in text
    suite = results.parent / f"{name}.yaml"
    suite.write_text(text.replace("batch_size: 100", "batch_size: 4"))
    model = ("--registry", folder / "registry.yaml", "--model", "small", "--executor", "serial", "--device", "cpu")
    return robench("run", "--suite", suite, *model, "--data-root", data_root, "--results", results, "--json")


def test_natural_shifts_have_their_columns_and_predictions_within_their_classes(
    robench: Robench, folder: Path, data_root: Path, tmp_path: Path
) -> None:
    ended = run(robench, "imagenet-shift", folder, data_root, tmp_path / "r")
    assert ended.code == 0, ended.stderr
    (row,) = json.loads(ended.stdout)["rows"]
    assert all(cell["value"] is not None for cell in row["cells"].values())
    assert {key.partition("/")[2] for key in row["cells"] if key.startswith("o/")} == {"aupr", "auroc", "fpr95"}
    records = list(FolderStore(tmp_path / "r").records(lambda shard: True))
    for subset in "aro":
        wanted = set(class_indices_of(f"imagenet-{subset}"))
        masked = [each for each in records if each.shard.condition in (subset, f"{subset}-classes")]
        assert {outcome.prediction for each in masked for outcome in each.outcomes} <= wanted  # type: ignore[attr-defined]
        assert {each.shard.condition for each in masked} == {subset, f"{subset}-classes"}
    free = [each for each in records if each.shard.condition == "clean"]
    assert {outcome.prediction for each in free for outcome in each.outcomes} - set(class_indices_of("imagenet-a"))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_published_corruptions_have_a_mean_error_over_the_same_images(
    robench: Robench, folder: Path, data_root: Path, tmp_path: Path
) -> None:
    ended = run(robench, "imagenet-c-extra", folder, data_root, tmp_path / "r")
    assert ended.code == 0, ended.stderr
    (row,) = json.loads(ended.stdout)["rows"]
    cell = row["cells"]["imagenet-c/mean_error"]
    assert (cell["missing"], cell["value"] is not None) == (0, True)


def test_a_set_that_is_not_there_is_named_with_where_it_was_looked_for(
    robench: Robench, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "nothing").mkdir()
    ended = run(robench, "imagenet-shift", folder, tmp_path / "nothing", tmp_path / "r")
    assert ended.code == 4
    assert all(name in ended.stderr for name in ("imagenet-a", "imagenet-sketch", "imagenet-v2"))
