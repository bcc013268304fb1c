"""Training on embedded images: its loss and rates, shifts and noise, and adversarial examples within their budget."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from robench.core.checkpoint import Checkpoint
from robench.declare import find_checkpoints
from robench.training.base import EpochReport
from robench.training.embedded_impl import _fraction_of_peak, _optimizer, train
from robench.training.images import Training
from robench.training.optimization import adversarial, noisy, shifted


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


EPSILON = Fraction(8, 255)
OFF = {"adversarial_epsilon": Fraction(0), "adversarial_step_size": Fraction(0), "adversarial_num_steps": 0}


def recipe(**changes: Any) -> Training:
    fields: dict[str, Any] = {
        "adversarial_epsilon": EPSILON,
        "adversarial_step_size": Fraction(2, 255),
        "adversarial_num_steps": 7,
    }
    return Training(dataset="digits", seed=0, num_epochs=1, batch_size=64, learning_rate=0.001, **(fields | changes))


def shortened(**changes: Any) -> Checkpoint:
    (checkpoint,) = find_checkpoints(["digits-vit"])
    # A small model, since each step has eight passes.
    architecture = replace(checkpoint.architecture, depth=1, dim=16, num_heads=2)  # type: ignore[type-var]
    return replace(checkpoint, architecture=architecture, training=recipe(**changes))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class TestPoints:
    images = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(7))
    targets = torch.arange(16) % 10
    weights = torch.randn(192, 10, generator=torch.Generator().manual_seed(8))

    def loss_at(self, points: torch.Tensor) -> torch.Tensor:
        return cross_entropy(points.flatten(1) @ self.weights, self.targets)

    def points(self, **changes: Any) -> torch.Tensor:
        return adversarial(self.images, self.loss_at, recipe(**changes), generator())

    def test_stay_within_budget_and_pixel_range(self) -> None:
        points = self.points()
        assert float((points - self.images).abs().max()) <= float(EPSILON) + 1e-6
        assert 0 <= float(points.min()) <= float(points.max()) <= 1
        assert not points.requires_grad

    def test_have_a_higher_loss_than_images_and_more_steps_a_higher_one(self) -> None:
        values = [
            float(self.loss_at(each)) for each in (self.images, self.points(adversarial_num_steps=1), self.points())
        ]
        assert values[0] < values[1] < values[2]

    def test_of_a_linear_loss_are_the_worst_corner(self) -> None:
        slope = torch.randn(3, 8, 8, generator=generator(1))
        points = adversarial(self.images, lambda at: (at * slope).sum(), recipe(adversarial_num_steps=20), generator())
        corner = (self.images + float(EPSILON) * slope.sign()).clamp(0, 1)
        assert torch.allclose(points, corner, atol=1e-6)

    def test_are_drawn_by_the_generator_alone(self) -> None:
        torch.manual_seed(1)
        first = self.points()
        torch.manual_seed(2)
        assert torch.equal(first, self.points())
        other = adversarial(self.images, self.loss_at, recipe(adversarial_num_steps=1), generator(5))
        assert not torch.equal(other, self.points(adversarial_num_steps=1))

    def test_without_a_budget_are_the_images_and_nothing_is_drawn(self) -> None:
        drawn, fresh = generator(), generator()
        assert adversarial(self.images, self.loss_at, recipe(**OFF), drawn) is self.images
        assert torch.equal(drawn.get_state(), fresh.get_state())


class TestRecipe:
    def test_training_on_them_meets_a_higher_loss_and_ends_with_other_weights(self) -> None:
        heard: list[EpochReport] = []
        hardened = train(shortened(), on_epoch=heard.append)
        plain = train(shortened(**OFF), on_epoch=heard.append)
        assert heard[0].loss_nats > heard[1].loss_nats
        assert not torch.equal(hardened["head.weight"], plain["head.weight"])

    def test_half_precision_rounds_what_would_have_been_kept(self) -> None:
        kept, rounded = (train(shortened(**OFF, saved_as=dtype)) for dtype in ("float32", "float16"))
        assert {value.dtype for value in rounded.values()} == {torch.float16}
        assert all(torch.equal(kept[name].to(torch.float16), value) for name, value in rounded.items())

    def test_counts_are_not_rounded(self) -> None:
        (checkpoint,) = find_checkpoints(["digits-fan"])
        small: Any = replace(checkpoint.architecture, depth=1, dim=16, num_heads=2, num_class_blocks=1)  # type: ignore[type-var]
        state = train(replace(checkpoint, architecture=small, training=recipe(**OFF, saved_as="float16")))
        assert {value.dtype for value in state.values()} == {torch.float16, torch.int64}
