"""Training is a function of the registry entry: same entry, same bytes, and nobody's generators disturbed."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from robench.core.checkpoint import Checkpoint
from robench.declare import find_checkpoints
from robench.training.base import EpochReport
from robench.training.embedded_impl import _fraction_of_peak, _optimizer, train
from robench.training.images import Training
from robench.training.optimization import noisy, shifted


def short(**changes: Any) -> Checkpoint:
    (checkpoint,) = find_checkpoints(["digits-rpc-symvit"], [])
    assert isinstance(checkpoint.training, Training)
    # A small model: an epoch of the whole one takes five seconds.
    architecture = replace(checkpoint.architecture, depth=1, dim=16, num_heads=2)  # type: ignore[type-var]
    training = replace(checkpoint.training, **({"num_epochs": 1} | changes))
    return replace(checkpoint, architecture=architecture, training=training)


def test_training_lowers_the_loss_and_reports_every_epoch() -> None:
    heard: list[EpochReport] = []
    plain = {"learning_rate": 0.01, "noise_scale": 0.0, "max_shift": 0}
    train(short(num_epochs=3, warmup_epochs=0, **plain), on_epoch=heard.append)
    assert [(report.epoch, report.num_epochs) for report in heard] == [(1, 3), (2, 3), (3, 3)]
    assert heard[-1].loss_nats < 0.97 * heard[0].loss_nats


def test_the_learning_rate_rises_linearly_and_falls_as_a_cosine() -> None:
    training = Training(dataset="digits", seed=0, num_epochs=12, batch_size=8, learning_rate=0.5, warmup_epochs=2)
    rates = [training.learning_rate * _fraction_of_peak(training, epoch) for epoch in (0.0, 1.0, 2.0, 7.0, 12.0)]
    assert rates == pytest.approx([0.0, 0.25, 0.5, 0.25, 0.0], abs=1e-3)
    assert rates[0] > 0


def test_weight_decay_is_for_matrices_alone() -> None:
    training = Training(dataset="digits", seed=0, num_epochs=1, batch_size=8, learning_rate=0.1, weight_decay=0.3)
    groups = _optimizer(torch.nn.Linear(2, 3), training).param_groups
    assert [(group["weight_decay"], [value.ndim for value in group["params"]]) for group in groups] == [
        (0.3, [2]),
        (0.0, [1]),
    ]


class TestShifted:
    images = torch.arange(2 * 1 * 4 * 5, dtype=torch.float32).reshape(2, 1, 4, 5)

    def test_no_shift_returns_the_images(self) -> None:
        assert shifted(self.images, 0, torch.Generator()) is self.images

    def test_each_image_is_moved_by_at_most_max_shift_with_its_border_repeated(self) -> None:
        padded = torch.nn.functional.pad(self.images, [2] * 4, mode="replicate")
        seen = set()
        for seed in range(80):
            moved = shifted(self.images, 2, torch.Generator().manual_seed(seed))
            for i in range(2):
                crops = {
                    (row, column): padded[i, :, row : row + 4, column : column + 5]
                    for row in range(5)
                    for column in range(5)
                }
                places = [place for place, crop in crops.items() if torch.equal(crop, moved[i])]
                assert places
                seen.update(places)
        assert len(seen) == 25


class TestNoisy:
    images = torch.full((4, 3, 32, 32), 0.5)

    def test_no_noise_returns_the_images(self) -> None:
        assert noisy(self.images, 0.0, torch.Generator()) is self.images

    def test_noise_has_the_scale_asked_for_and_stays_in_the_pixel_range(self) -> None:
        added = noisy(self.images, 0.1, torch.Generator().manual_seed(0))
        assert float((added - 0.5).std()) == pytest.approx(0.1, rel=0.05)
        strong = noisy(self.images, 2.0, torch.Generator().manual_seed(0))
        assert (float(strong.min()), float(strong.max())) == (0.0, 1.0)
