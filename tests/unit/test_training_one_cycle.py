"""Training on images in memory: with one cycle of the rate or the older recipe, its step is the equation."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from math import cos, pi
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from training_examples import entry_of
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, UsageError
from robench.core.protocols import Batch
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints
from robench.models.build import build
from robench.models.vit import Vit
from robench.training.base import EpochReport, Host
from robench.training.embedded_impl import _fraction_of_peak, _optimizer
from robench.training.embedded_impl import train as train_embedded
from robench.training.images import OneCycleTraining, Training
from robench.training.one_cycle_impl import ImagesInMemory, OneCycleLearner, train
from robench.training.optimization import adversarial, noisy, seed_for, shifted

CPU = torch.device("cpu")
ARCHITECTURE = Vit(
    image_size=32, patch_size=16, num_classes=10, depth=1, dim=16, num_heads=2, mlp_ratio=1.0,
    embedding="convolutions", pooling="mean",
)  # fmt: skip
PREPROCESSING = ImagePreprocessing(mean=(0.3, 0.4, 0.5), std=(0.2, 0.3, 0.4))
FAST: dict[str, Any] = {
    "adversarial_epsilon": Fraction(8, 255),
    "adversarial_step_size": Fraction(10, 255),
    "adversarial_num_steps": 1,
}


class Colours:
    """Images of 8 bits, or with ``finer`` of values between."""

    def __init__(self, num_images: int, *, finer: bool = False) -> None:
        generator = torch.Generator().manual_seed(5)
        self.images = torch.randint(0, 256, (num_images, 3, 32, 32), generator=generator).to(torch.float32).div(255)
        if finer:
            self.images = self.images * 0.999
        self.targets = torch.arange(num_images) % 10

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, start: int, stop: int) -> Batch:
        ids = tuple(map(str, range(start, stop)))
        return Batch(ids=ids, inputs=self.images[start:stop], targets=self.targets[start:stop])


def recipe(**changes: Any) -> OneCycleTraining:
    fields: dict[str, Any] = {"num_epochs": 3, "batch_size": 400, "learning_rate": 0.01, "crop_padding": 2}
    return OneCycleTraining(dataset="digits", seed=0, **(fields | changes))


def checkpoint_of(**changes: Any) -> Checkpoint:
    return entry_of(ARCHITECTURE, PREPROCESSING, recipe(**changes))


def trained(on_epoch: Callable[[EpochReport], None] = lambda report: None, **changes: Any) -> dict[str, Tensor]:
    return train(checkpoint_of(**changes), Host(data_root=None), on_epoch)


class TestAugmentation:
    @pytest.mark.parametrize("finer", [False, True])
    def test_each_image_is_a_window_of_the_bordered_one_or_its_mirror_image(self, finer: bool) -> None:
        """Go through the images one by one, with the same draws."""
        dataset = Colours(40, finer=finer)
        kept = ImagesInMemory(dataset, CPU)  # type: ignore[arg-type]  # all that is read of a dataset
        rows = torch.tensor([3, 39, 3, 0, *range(10, 26)])
        found = kept.augmented(rows, 4, flip=True, generator=torch.Generator().manual_seed(1))
        generator = torch.Generator().manual_seed(1)
        tops, lefts = torch.randint(0, 9, (2, len(rows)), generator=generator)
        is_flipped = torch.rand(len(rows), generator=generator) < 0.5
        for number, row in enumerate(rows):
            bordered = torch.zeros(3, 40, 40)
            bordered[:, 4:36, 4:36] = dataset.images[row]
            window = bordered[:, tops[number] : tops[number] + 32, lefts[number] : lefts[number] + 32]
            assert torch.equal(found[number], window.flip(2) if is_flipped[number] else window)
        assert 0 < int(is_flipped.sum()) < len(rows)

    def test_without_it_images_are_as_they_were_and_nothing_is_drawn(self) -> None:
        dataset = Colours(6)
        kept = ImagesInMemory(dataset, CPU)  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(1)
        before = generator.get_state()
        found = kept.augmented(torch.tensor([4, 1]), 0, flip=False, generator=generator)
        assert torch.equal(found, dataset.images[[4, 1]])
        assert torch.equal(generator.get_state(), before)

    def test_images_of_8_bits_take_a_byte_for_each_value(self) -> None:
        for finer, dtype in ((False, torch.uint8), (True, torch.float32)):
            kept = ImagesInMemory(Colours(2, finer=finer), CPU)  # type: ignore[arg-type]
            assert kept._images.dtype == dtype


class TestStep:
    @pytest.mark.parametrize("noise_scale", [0.0, 0.7])
    def test_an_epoch_is_that_of_the_equations(self, noise_scale: float) -> None:
        """Write the steps from the equations: cycle, decay of matrices alone, smoothed targets, noise not clipped."""
        fields = {"label_smoothing": 0.2, "weight_decay": 0.5, "warmup": 0.3, "noise_scale": noise_scale}
        training = recipe(num_epochs=2, batch_size=3, crop_padding=0, **fields)
        dataset = Colours(8)
        torch.manual_seed(0)
        reference, model = (build(ARCHITECTURE).train() for _ in range(2))
        model.load_state_dict(reference.state_dict())
        images = ImagesInMemory(dataset, CPU)  # type: ignore[arg-type]
        learner = OneCycleLearner(model, training, PREPROCESSING, images, Host(data_root=None))
        found, num_images = learner.epoch(1)
        generator = torch.Generator().manual_seed(seed_for(0, "images", 1))
        order = torch.randperm(8, generator=generator)
        moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in named(reference)}
        total = 0.0
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (PREPROCESSING.mean, PREPROCESSING.std))
        for step in range(3):
            rows = order[3 * step : 3 * step + 3]
            seen = dataset.images[rows]
            if noise_scale:
                seen = seen + noise_scale * torch.randn(seen.shape, generator=generator)
            logits = reference((seen - mean) / std).log_softmax(1)
            smoothed = torch.full((len(rows), 10), 0.02)
            smoothed[torch.arange(len(rows)), dataset.targets[rows]] += 0.8
            loss = -(smoothed * logits).sum(1).mean()
            gradients = torch.autograd.grad(loss, [value for _, value in named(reference)])
            total += float(loss.detach()) * len(rows)
            done = (1 + step / 3) / 2
            rate = 0.01 * 0.5 * (1 + cos(pi * (done - 0.3) / 0.7))
            for (name, value), gradient in zip(named(reference), gradients, strict=True):
                first, second = moments[name]
                first.mul_(0.9).add_(0.1 * gradient)
                second.mul_(0.999).add_(0.001 * gradient**2)
                if value.ndim >= 2 and name != "pos_embed":
                    value.data *= 1 - rate * 0.5
                corrected = first / (1 - 0.9 ** (step + 1)), second / (1 - 0.999 ** (step + 1))
                value.data -= rate * corrected[0] / (corrected[1].sqrt() + 1e-8)
        assert num_images == 8
        assert found == pytest.approx(total / 8, rel=1e-5)
        for name, value in named(reference):
            assert torch.allclose(dict(named(model))[name], value, atol=2e-5), name

    def test_held_out_images_are_never_learned_from(self) -> None:
        training, found, learner = recipe(batch_size=2, held_out=0.3), [], None
        model = build(ARCHITECTURE)
        for is_changed in (False, True):
            dataset = Colours(10)
            if is_changed:
                assert learner is not None
                dataset.images[learner.held_out] = 0.0
                dataset.targets[learner.held_out] = 9 - dataset.targets[learner.held_out]
            images = ImagesInMemory(dataset, CPU)  # type: ignore[arg-type]
            learner = OneCycleLearner(deepcopy(model), training, PREPROCESSING, images, Host(data_root=None))
            assert (len(learner.held_out), learner.num_examples) == (3, 7)
            assert learner.epoch(0)[1] == 7
            found.append(learner.weights())
        assert same(*found)

    @pytest.mark.parametrize("held_out", [0.01, 0.99])
    def test_no_part_is_empty(self, held_out: float) -> None:
        images = ImagesInMemory(Colours(10), CPU)  # type: ignore[arg-type]
        with pytest.raises(DeclarationError, match=f"held_out {held_out} of 10 training examples are"):
            OneCycleLearner(build(ARCHITECTURE), recipe(held_out=held_out), PREPROCESSING, images, Host(data_root=None))

    def test_the_rate_rises_to_its_peak_and_falls_to_zero(self) -> None:
        rates: list[float] = []
        learner = OneCycleLearner(
            build(ARCHITECTURE),
            recipe(num_epochs=4, batch_size=1, crop_padding=0, warmup=0.5),
            PREPROCESSING,
            ImagesInMemory(Colours(10), CPU),  # type: ignore[arg-type]
            Host(data_root=None),
        )
        step = learner._optimizer.step
        learner._optimizer.step = lambda: (  # type: ignore[method-assign, assignment]
            rates.append(learner._optimizer.param_groups[0]["lr"]),
            step(),
        )
        for epoch in range(4):
            learner.epoch(epoch)
        assert rates.index(max(rates)) == 20
        assert max(rates) == pytest.approx(0.01)
        assert rates[:20] == sorted(rates[:20])
        assert rates[20:] == sorted(rates[20:], reverse=True)
        assert rates[-1] < 0.0002

    @pytest.mark.parametrize("micro", [1, 3])
    def test_gradients_of_micro_batches_add_up(self, micro: int) -> None:
        whole, parts = (
            train(checkpoint_of(num_epochs=1), Host(data_root=None, micro_batch_size=size))
            for size in (None, 100 * micro)
        )
        assert all(torch.allclose(whole[name], parts[name], atol=1e-4) for name in whole)


class TestTraining:
    def test_epochs_are_scored_on_held_out_images(self) -> None:
        reports: list[EpochReport] = []
        weights = trained(reports.append, held_out=0.25, num_epochs=1)
        (scores,) = (report.validation for report in reports)
        learned = open_dataset("digits", data_root=None, preprocessing=PREPROCESSING, split="train")
        batch = learned.batch(0, len(learned))
        order = torch.randperm(len(learned), generator=torch.Generator().manual_seed(seed_for(0, "held-out", 0)))
        rows = order[: round(0.25 * len(learned))]
        model = build(ARCHITECTURE).eval()
        model.load_state_dict(weights)
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (PREPROCESSING.mean, PREPROCESSING.std))
        right = model((batch.inputs[rows] - mean) / std).argmax(1) == batch.targets[rows]
        assert scores is not None
        assert (scores.num_examples, scores.top1_accuracy) == (len(rows), pytest.approx(float(right.float().mean())))

    @pytest.mark.parametrize(
        "changes",
        [{"flip": True, "label_smoothing": 0.1}, FAST, {"spectral_penalty": (0.1, 0.0, 0.3)}],
        ids=["plain", "adversarial", "spectral"],
    )
    def test_stopped_twice_it_ends_in_the_same_weights(self, changes: dict[str, Any], tmp_path: Path) -> None:
        whole = trained(**changes)
        host = Host(data_root=None, state_path=tmp_path / "small.training")
        heard: list[EpochReport] = []
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                train(checkpoint_of(**changes), host, interrupt_after())
        torch.manual_seed(7)
        resumed = train(checkpoint_of(**changes), host, heard.append)
        assert [report.epoch for report in heard] == [3]
        assert same(whole, resumed)
        with pytest.raises(UsageError, match="is of a training with other fields"):
            train(replace(checkpoint_of(**changes), training=replace(recipe(**changes), seed=1)), host)

    def test_every_part_of_the_recipe_counts(self) -> None:
        assert recipe(**FAST).variant == "adversarial training within 8/255"
        plain = trained(num_epochs=1)
        spectral = [{"spectral_penalty": tuple(float(place == each) for each in range(3))} for place in range(3)]
        assert recipe(**FAST, **spectral[1]).variant == "adversarial training within 8/255; spectral penalty 0, 1, 0"
        others = ({"flip": True}, {"crop_padding": 0}, {"label_smoothing": 0.5}, {"weight_decay": 1.0}, FAST)
        for changes in (*others, *spectral):
            assert not same(plain, trained(**({"num_epochs": 1} | changes))), changes

    def test_it_learns_and_reports_scores_of_every_epoch(self) -> None:
        heard: list[EpochReport] = []
        weights = trained(heard.append, num_epochs=4, batch_size=32, learning_rate=0.005, saved_as="float16")
        assert [report.epoch for report in heard] == [1, 2, 3, 4]
        scores = [report.validation for report in heard]
        assert scores[-1] is not None
        assert scores[-1].num_examples == 600
        assert scores[-1].top1_accuracy is not None
        assert scores[-1].top1_accuracy > 0.25
        assert {value.dtype for value in weights.values()} == {torch.float16}


def named(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return list(model.named_parameters())


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
    train_embedded(short(num_epochs=3, warmup_epochs=0, **plain), on_epoch=heard.append)
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
    found = [(group["weight_decay"], [value.ndim for value in group["params"]]) for group in groups]
    assert found == [(0.3, [2]), (0.0, [1])]


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


def hardening(**changes: Any) -> Training:
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
    return replace(checkpoint, architecture=architecture, training=hardening(**changes))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class TestPoints:
    images = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(7))
    targets = torch.arange(16) % 10
    weights = torch.randn(192, 10, generator=torch.Generator().manual_seed(8))

    def loss_at(self, points: torch.Tensor) -> torch.Tensor:
        return cross_entropy(points.flatten(1) @ self.weights, self.targets)

    def points(self, **changes: Any) -> torch.Tensor:
        return adversarial(self.images, self.loss_at, hardening(**changes), generator())

    def test_stay_within_budget_and_pixel_range(self) -> None:
        points = self.points()
        assert float((points - self.images).abs().max()) <= float(EPSILON) + 1e-6
        assert 0 <= float(points.min()) <= float(points.max()) <= 1
        assert not points.requires_grad

    def test_have_a_higher_loss_than_images_and_more_steps_a_higher_one(self) -> None:
        values = [float(self.loss_at(at)) for at in (self.images, self.points(adversarial_num_steps=1), self.points())]
        assert values[0] < values[1] < values[2]

    def test_of_a_linear_loss_are_the_worst_corner(self) -> None:
        slope = torch.randn(3, 8, 8, generator=generator(1))
        points = adversarial(self.images, lambda x: (x * slope).sum(), hardening(adversarial_num_steps=20), generator())
        corner = (self.images + float(EPSILON) * slope.sign()).clamp(0, 1)
        assert torch.allclose(points, corner, atol=1e-6)

    def test_are_drawn_by_the_generator_alone(self) -> None:
        torch.manual_seed(1)
        first = self.points()
        torch.manual_seed(2)
        assert torch.equal(first, self.points())
        other = adversarial(self.images, self.loss_at, hardening(adversarial_num_steps=1), generator(5))
        assert not torch.equal(other, self.points(adversarial_num_steps=1))

    def test_without_a_budget_are_the_images_and_nothing_is_drawn(self) -> None:
        drawn, fresh = generator(), generator()
        assert adversarial(self.images, self.loss_at, hardening(**OFF), drawn) is self.images
        assert torch.equal(drawn.get_state(), fresh.get_state())


class TestRecipe:
    def test_training_on_them_meets_a_higher_loss_and_ends_with_other_weights(self) -> None:
        heard: list[EpochReport] = []
        hardened = train_embedded(shortened(), on_epoch=heard.append)
        plain = train_embedded(shortened(**OFF), on_epoch=heard.append)
        assert heard[0].loss_nats > heard[1].loss_nats
        assert not torch.equal(hardened["head.weight"], plain["head.weight"])

    def test_half_precision_rounds_what_would_have_been_kept(self) -> None:
        kept, rounded = (train_embedded(shortened(**OFF, saved_as=dtype)) for dtype in ("float32", "float16"))
        assert {value.dtype for value in rounded.values()} == {torch.float16}
        assert all(torch.equal(kept[name].to(torch.float16), value) for name, value in rounded.items())

    def test_counts_are_not_rounded(self) -> None:
        (checkpoint,) = find_checkpoints(["digits-fan"])
        small: Any = replace(checkpoint.architecture, depth=1, dim=16, num_heads=2, num_class_blocks=1)  # type: ignore[type-var]
        state = train_embedded(replace(checkpoint, architecture=small, training=hardening(**OFF, saved_as="float16")))
        assert {value.dtype for value in state.values()} == {torch.float16, torch.int64}
