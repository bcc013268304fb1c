"""Scores between epochs: what they are, and that no byte of what is trained depends on them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints
from robench.models.build import build
from robench.models.loading import load_model, load_strictly
from robench.models.state_files import load_state
from robench.training import embedded_impl
from robench.training.base import EpochReport
from robench.training.embedded_impl import train
from robench.training.epochs import Score, validation_on
from robench.training.images import Training

CPU = torch.device("cpu")


def checkpoint_named(name: str) -> Checkpoint:
    (checkpoint,) = find_checkpoints([name])
    return checkpoint


def preprocessing_of(checkpoint: Checkpoint) -> ImagePreprocessing:
    assert isinstance(checkpoint.preprocessing, ImagePreprocessing)
    return checkpoint.preprocessing


def short(name: str, **changes: Any) -> Checkpoint:
    checkpoint = checkpoint_named(name)
    assert isinstance(checkpoint.training, Training)
    architecture = replace(checkpoint.architecture, depth=1, dim=16, num_heads=2)  # type: ignore[type-var]
    training = replace(checkpoint.training, **({"num_epochs": 1} | changes))
    return replace(checkpoint, architecture=architecture, training=training)


def validation_of(checkpoint: Checkpoint) -> Score:
    found = validation_on("digits", preprocessing_of(checkpoint), device=CPU)
    assert found is not None
    return found


def trained_module(checkpoint: Checkpoint) -> torch.nn.Module:
    module = build(checkpoint.architecture)
    load_strictly(module, load_state(checkpoint.folder / checkpoint.weights.uri, "plain"), "published")
    return module


def test_scores_are_those_of_the_evaluation_split() -> None:
    checkpoint = checkpoint_named("digits-vit")
    scores = validation_of(checkpoint)(trained_module(checkpoint))
    digits = open_dataset("digits", data_root=None, preprocessing=preprocessing_of(checkpoint))
    everything = digits.batch(0, len(digits))
    with torch.no_grad():
        logits = load_model(checkpoint).outputs(everything.inputs)
    assert scores.num_examples == len(digits) == 600
    assert scores.top1_accuracy == pytest.approx(checkpoint.expected["top1_accuracy"], abs=5e-5)
    assert scores.loss_nats == pytest.approx(float(cross_entropy(logits, everything.targets)), rel=1e-4)


def test_mode_gradients_and_generators_are_as_before() -> None:
    checkpoint = checkpoint_named("digits-vit")
    module, validation = trained_module(checkpoint), validation_of(checkpoint)
    for training in (True, False):
        module.train(training)
        torch.manual_seed(3)
        before = torch.random.get_rng_state()
        validation(module)
        assert module.training == training
        assert torch.equal(torch.random.get_rng_state(), before)
        assert all(value.grad is None and value.requires_grad for value in module.parameters())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One model that keeps something outside training; ``tests/slow`` has the others."""
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", ["digits-bilateral-vit"])


def test_no_byte_of_the_weights_depends_on_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of models that keep something outside training, draw, count batches, or redraw."""
    heard: list[EpochReport] = []
    scored = train(short(name, num_epochs=1), on_epoch=heard.append)
    assert all(report.validation is not None for report in heard)
    monkeypatch.setattr(embedded_impl, "validation_on", lambda *args, **options: None)
    alone = train(short(name, num_epochs=1), on_epoch=heard.append)
    assert [report.validation for report in heard[1:]] == [None]
    assert [report.loss_nats for report in heard[:1]] == [report.loss_nats for report in heard[1:]]
    assert all(torch.equal(scored[each], alone[each]) for each in scored)


def test_the_scores_of_the_last_epoch_are_of_the_weights_that_are_returned() -> None:
    checkpoint = short("digits-symvit", num_epochs=2)
    heard: list[EpochReport] = []
    module = build(checkpoint.architecture)
    module.load_state_dict(train(checkpoint, on_epoch=heard.append))
    assert heard[-1].validation == validation_of(checkpoint)(module)
    assert heard[-1].validation != heard[0].validation


def test_models_that_draw_have_the_same_scores_whatever_was_drawn_before() -> None:
    checkpoint = checkpoint_named("digits-mom-released-vit")
    module, validation = trained_module(checkpoint), validation_of(checkpoint)
    torch.manual_seed(1)
    first = validation(module)
    torch.manual_seed(2)
    assert validation(module) == first


def test_images_that_are_not_on_disk_are_not_validated_on(tmp_path: Path) -> None:
    preprocessing = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), resize=256, crop=224)
    assert validation_on("imagenet-1k", preprocessing, data_root=tmp_path, device=CPU) is None
