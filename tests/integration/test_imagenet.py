"""An ImageNet-shaped tree goes through ``imagenet-adv`` with the ImageNet-scale entries of the registry."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from conftest import Robench
from PIL import Image

from robench.declare import read_registry, shipped_registry
from robench.models.build import build

WNIDS = ("n01440764", "n01443537", "n03000684", "n15075141")
# Here and below: for tests/slow/test_imagenet_runs.py.
CLASSES = {"n01440764": 0, "n01443537": 1, "n03000684": 491, "n15075141": 999}


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    for wnid in WNIDS:
        folder = root / "imagenet-1k" / "val" / wnid
        folder.mkdir(parents=True)
        for number in range(2):
            pixels = generator.integers(0, 255, (270 + 30 * number, 300, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"ILSVRC2012_val_{number:08}.JPEG")
    return root


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped entry of rpc-symvit, with random weights beside it."""
    folder: Path = tmp_path_factory.mktemp("registry")
    entry = read_registry(shipped_registry())["rpc-symvit"]
    torch.manual_seed(0)
    (folder / "weights").mkdir()
    torch.save({"model": build(entry.architecture).state_dict()}, folder / "weights" / "rpc-symvit.pth")
    text = shipped_registry().read_text().split("  rpc-symvit:\n")[1].split("\n\n")[0]
    (folder / "registry.yaml").write_text(f"checkpoints:\n  random-rpc-symvit:\n{text}")
    return folder / "registry.yaml"


def run(robench: Robench, registry: Path, results: Path, *options: object) -> Any:
    model = ("--registry", registry, "--model", "random-rpc-symvit")
    return robench("run", "--suite", SMALL, *model, "--results", results, "--executor", "serial", *options)


@pytest.fixture(autouse=True)
def _small(tmp_path: Path) -> None:
    """The shipped suite with batches of 4 instead of 50, for a machine without a GPU."""
    from robench.declare import shipped_suites

    text = shipped_suites()["imagenet-adv"].read_text()
    assert "batch_size: 50" in text
    global SMALL
    SMALL = tmp_path / "imagenet-adv.yaml"
    SMALL.write_text(text.replace("batch_size: 50", "batch_size: 4").replace("num_steps: 20", "num_steps: 2"))


def clean_alone() -> None:
    """Leave the clean condition alone in the suite, and what is computed of it."""
    suite = yaml.safe_load(SMALL.read_text())
    suite |= {"conditions": [{"name": "clean"}], "metrics": ["top1_accuracy", "top5_accuracy"]}
    SMALL.write_text(yaml.safe_dump(suite))


@pytest.mark.slow
def test_the_data_root_is_found_by_its_variable_too(
    robench: Robench, registry: Path, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBENCH_DATA", str(data_root))
    assert run(robench, registry, tmp_path / "r", "--dry-run").code == 0


@pytest.mark.parametrize("place", ["absent", "empty", "none"])
def test_a_missing_folder_is_named_with_the_layout_that_is_wanted(
    robench: Robench, registry: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "empty").mkdir()
    options = () if place == "none" else ("--data-root", tmp_path / place)
    ended = run(robench, registry, tmp_path / "r", *options)
    assert ended.code == 4
    assert ended.stdout == ""
    assert "--data-root" in ended.stderr
    assert "ROBENCH_DATA" in ended.stderr


def test_missing_weights_are_named_with_what_to_put_where(robench: Robench, data_root: Path, tmp_path: Path) -> None:
    for name, advice in (("rpc-symvit", "KPCA_code"), ("deit-tiny", "dl.fbaipublicfiles.com")):
        ended = robench(
            "run", "--suite", "imagenet-adv", "--model", name, "--data-root", data_root, "--results", tmp_path / "r"
        )
        assert ended.code == 4
        assert "weights" in ended.stderr
        assert advice in ended.stderr


def test_everything_that_is_missing_is_named_at_once(robench: Robench, tmp_path: Path) -> None:
    models = ("--model", "rpc-symvit", "--model", "deit-tiny", "--model", "symvit")
    ended = robench("run", "--suite", "imagenet-adv", *models, "--results", tmp_path / "r")
    assert ended.code == 4
    for part in ("rpc-symvit.pth", "deit_tiny_patch16_224-a1311bcf.pth", "symvit.pth", "ROBENCH_DATA"):
        assert part in ended.stderr
    assert ended.stderr.count("dataset 'imagenet-1k'") == 1


TIMM = """\
checkpoints:
  mine:
    architecture: {backbone: timm, name: vit_tiny_patch16_224}
    weights: {uri: weights.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5], resize: 256, crop: 224}
"""
SMALL: Any = None
