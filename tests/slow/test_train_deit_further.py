"""Trainings on images in folders that are resumed, repeated, cut short or have no validation images."""

import signal
from pathlib import Path

import pytest
from conftest import Robench
from test_train_deit import ENTRY, images, options, registry

from robench.declare import read_registry

__all__ = ["images", "registry"]


def test_interrupted_it_goes_on_with_the_same_command_to_the_same_bytes(
    robench: Robench, registry: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robench.training.deit_impl import DeitLearner

    whole = tmp_path / "whole.safetensors"
    assert robench(*options(registry, images), "--output", whole).code == 0
    epochs, learn = [], DeitLearner.epoch

    def interrupted(self: DeitLearner, epoch: int) -> tuple[float, int]:
        epochs.append(epoch)
        if epochs == [0, 1]:
            signal.raise_signal(signal.SIGINT)
        return learn(self, epoch)

    monkeypatch.setattr(DeitLearner, "epoch", interrupted)
    ended = robench(*options(registry, images))
    assert ended.code == 130
    assert "The same command goes on where the last state was kept." in ended.stderr
    state = tmp_path / "weights" / "tiny.safetensors.training"
    assert state.exists()
    assert "sha256: null" in registry.read_text()
    other = robench(
        *options(registry, images), "--output", tmp_path / "weights" / "tiny.safetensors", "--num-epochs", 3
    )
    assert other.code == 2
    assert "is of a training with other fields" in other.stderr
    assert robench(*options(registry, images)).code == 0
    assert epochs == [0, 1, 1]
    assert not state.exists()
    assert (tmp_path / "weights" / "tiny.safetensors").read_bytes() == whole.read_bytes()


def test_asked_for_a_number_of_epochs_it_has_no_cool_down_after_them(
    robench: Robench, registry: Path, images: Path, tmp_path: Path
) -> None:
    registry.write_text(ENTRY.replace("num_epochs: 2", "num_epochs: 2, cooldown_epochs: 2"))
    weights = tmp_path / "short.safetensors"
    ended = robench(*options(registry, images), "--output", weights, "--num-epochs", 1)
    assert ended.code == 0, ended.stderr
    assert "epoch 1 of 1" in ended.stderr
    ended = robench(*options(registry, images), "--output", weights)
    assert "epoch 4 of 4" in ended.stderr


def test_without_validation_images_the_weights_are_kept_unmeasured(
    robench: Robench, registry: Path, images: Path
) -> None:
    ended = robench(*options(registry, images))
    assert ended.code == 0
    assert "their accuracy is not measured: dataset 'imagenet-1k' not found" in ended.stderr
    assert "tiny: clean accuracy not measured" in ended.stdout
    assert read_registry(registry)["tiny"].weights.sha256 is not None


def test_weights_that_the_registry_vouches_for_are_not_overwritten(
    robench: Robench, registry: Path, images: Path
) -> None:
    assert robench(*options(registry, images)).code == 0
    vouched, weights = registry.read_text(), (registry.parent / "weights" / "tiny.safetensors").read_bytes()
    ended = robench(*options(registry, images))
    assert ended.code == 2
    assert "the registry vouches for weights of 'tiny' already" in ended.stderr
    beside = registry.parent / "again.safetensors"
    assert robench(*options(registry, images), "--output", beside).code == 0
    assert beside.read_bytes() == weights
    assert registry.read_text() == vouched
