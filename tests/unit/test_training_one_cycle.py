"""Training with one cycle of the learning rate: its step is the equation, and interruptions change no bit."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import cos, pi
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from training_examples import entry_of
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint
from robench.core.errors import UsageError
from robench.core.protocols import Batch
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.vit import Vit
from robench.training.base import EpochReport, Host
from robench.training.images import OneCycleTraining
from robench.training.one_cycle_impl import ImagesInMemory, OneCycleLearner, train
from robench.training.optimization import seed_for

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
    def test_an_epoch_is_that_of_the_equations(self) -> None:
        """Write the same steps from the equations: cycle, decay of matrices alone, smoothed targets."""
        training = recipe(num_epochs=2, batch_size=3, crop_padding=0, label_smoothing=0.2, weight_decay=0.5, warmup=0.3)
        dataset = Colours(8)
        torch.manual_seed(0)
        reference, model = (build(ARCHITECTURE).train() for _ in range(2))
        model.load_state_dict(reference.state_dict())
        images = ImagesInMemory(dataset, CPU)  # type: ignore[arg-type]
        learner = OneCycleLearner(model, training, PREPROCESSING, images, Host(data_root=None))
        found, num_images = learner.epoch(1)
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed_for(0, "images", 1)))
        moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in named(reference)}
        total = 0.0
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (PREPROCESSING.mean, PREPROCESSING.std))
        for step in range(3):
            rows = order[3 * step : 3 * step + 3]
            logits = reference((dataset.images[rows] - mean) / std).log_softmax(1)
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
    @pytest.mark.parametrize("changes", [{"flip": True, "label_smoothing": 0.1}, FAST], ids=["plain", "adversarial"])
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
        for changes in ({"flip": True}, {"crop_padding": 0}, {"label_smoothing": 0.5}, {"weight_decay": 1.0}, FAST):
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
