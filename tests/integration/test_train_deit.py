"""``robench train`` on images in folders: from an entry to weights that load under it, interrupted or not."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from conftest import ROOT, Robench
from training_examples import write_tree

from robench.declare import read_registry
from robench.models.loading import load_model, resolve
from robench.training.history import read_history

ENTRY = """\
# my own
checkpoints:
  tiny:
    architecture: {backbone: vit, image_size: 32, patch_size: 16, num_classes: 1000, depth: 1, dim: 12, num_heads: 2}
    weights:
      uri: weights/tiny.pth   # as the authors call it
      sha256: null
      layout: deit
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5], resize: 36, crop: 32}
    training: {kind: deit, dataset: imagenet-1k, num_epochs: 2, batch_size: 8}
    expected: {top1_accuracy: 0.7}
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("data"))


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(ENTRY)
    return path


def options(registry: Path, images: Path) -> tuple[object, ...]:
    return ("train", "tiny", "--registry", registry, "--data-root", images, "--device", "cpu", "--workers", 1)


@pytest.mark.slow
def test_training_writes_weights_that_load_under_the_entry(robench: Robench, registry: Path, tmp_path: Path) -> None:
    before = registry.read_text().splitlines()
    images = write_tree(write_tree(tmp_path / "data"), "val", per_class=1)
    ended = robench(*options(registry, images), "--micro-batch-size", 4, "--precision", "bfloat16")
    assert ended.code == 0, ended.stderr
    checkpoint = read_registry(registry)["tiny"]
    path, digest = resolve(checkpoint)
    assert path == registry.parent / "weights" / "tiny.safetensors"
    assert digest == checkpoint.weights.sha256
    assert load_model(checkpoint).outputs(torch.rand(2, 3, 32, 32)).shape == (2, 1000)
    changed = [new for old, new in zip(before, registry.read_text().splitlines(), strict=True) if old != new]
    assert changed == [
        "      uri: weights/tiny.safetensors   # as the authors call it",
        f"      sha256: {digest}",
        "      layout: plain",
    ]
    assert "% clean" in ended.stdout
    assert "training tiny: epoch 2 of 2, loss " in ended.stderr
    assert " examples/s" in ended.stderr
    assert sorted(file.name for file in path.parent.iterdir()) == ["tiny.history.json", "tiny.safetensors"]
    assert read_history(path.parent / "tiny.history.json").precision == "bfloat16"


def test_a_file_that_nobody_vouches_for_is_not_overwritten_either(
    robench: Robench, registry: Path, images: Path
) -> None:
    (registry.parent / "weights").mkdir()
    (registry.parent / "weights" / "tiny.safetensors").write_text("precious")
    ended = robench(*options(registry, images))
    assert (ended.code, ended.stderr.count("is there already")) == (2, 1)


@pytest.mark.parametrize(
    ("added", "code", "message"),
    [
        (["--num-epochs", 1], 2, "--num-epochs trains another model than the entry describes"),
        (["--device", "cuda:99"], 2, "no device 'cuda:99' on this machine"),
        (["--output", "x.safetensors", "digits-vit"], 2, "--output is the file of one model, but 2 are to be trained"),
        (["digits-vit", "--micro-batch-size", 3], 2, "model 'digits-vit' is trained on the CPU in whole batches"),
        (
            ["digits-vit", "--precision", "bfloat16"],
            2,
            "model 'digits-vit' is trained in float32; leave out --precision",
        ),
        (["sotu-lm", "--precision", "bfloat16"], 2, "model 'sotu-lm' is trained in float32; leave out --precision"),
        (["cifar10-vit@7", "--precision", "bfloat16"], 2, "model 'cifar10-vit@7' is trained in float32; leave out"),
        (["deit-tiny"], 2, "the registry vouches for weights of 'deit-tiny' already (sha256 a1311bcf)"),
        (["--data-root", "nowhere"], 4, "training set of dataset 'imagenet-1k' not found. Tried:"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(
    robench: Robench,
    registry: Path,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    added: list[object],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = robench(*options(registry, images), *added)
    assert (ended.code, ended.stdout) == (code, "")
    assert ended.stderr.count("Error: ") == 1
    assert message in ended.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.yaml"]


def test_class_folders_that_are_not_imagenets_are_named(robench: Robench, registry: Path, tmp_path: Path) -> None:
    data = write_tree(tmp_path / "data", per_class=1)
    (data / "imagenet-1k" / "train" / "n00004475").mkdir()
    ended = robench(*options(registry, data))
    assert ended.code == 4
    assert "n00004475 is not a class of ImageNet-1k" in ended.stderr


def test_all_means_the_models_of_embedded_data(robench: Robench, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    monkeypatch.setattr(
        "robench.cli.train_command._train", lambda registry, checkpoint, asked: trained.append(checkpoint.name)
    )
    assert robench("train", "--all").code == 0
    assert len(trained) >= 30
    assert {name.partition("-")[0] for name in trained} == {"digits", "listops", "pendulum", "scenes", "sotu"}
    assert not any(name.startswith("lra-") for name in trained)


def test_the_commands_of_the_page_on_training_are_taken(robench: Robench) -> None:
    commands = re.findall(r"^robench (train|timm) (.*)$", (ROOT / "docs" / "training.md").read_text(), re.MULTILINE)
    assert {name for name, _ in commands} == {"train", "timm"}
    for name, arguments in commands:
        # Help comes after the options were understood; those of timm's script are its own.
        given = shlex.split(arguments, comments=True) if name == "train" else []
        ended = robench(name, *given, "--help")
        assert ended.code == 0, ended.stderr
