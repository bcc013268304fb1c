"""Training images of folders, and recipes of the fully attentional networks that are trained on them."""

from collections import Counter
from dataclasses import fields, replace
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import auto_augment
from timm.layers.drop import DropPath
from torch import nn
from training_examples import CLASSES, PREPROCESSING, checkpoint_of, recipe, write_tree
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint
from robench.core.errors import ExampleError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.vit import Fan
from robench.training.base import EpochReport, Host
from robench.training.deit import DeitTraining
from robench.training.deit_impl import DeitLearner, Mixing, optimizer_of, schedule_of, train_deit
from robench.training.folder_images import (
    EpochKeys,
    TrainingImages,
    batches,
    posterize,
    posterizing_to_black,
    transform_of,
)
from robench.training.optimization import seeded

PLAIN: dict[str, Any] = {"auto_augment": "", "random_erasing": 0.0}


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("data"))


def images_of(data_root: Path, **changes: Any) -> TrainingImages:
    return TrainingImages(data_root, recipe(**changes), PREPROCESSING)


def keys(data_root: Path, epoch: int = 0, **changes: Any) -> list[list[tuple[int, int]]]:
    training = recipe(**changes)
    return list(EpochKeys(images_of(data_root), training, epoch))


class TestOrder:
    def test_an_image_is_met_three_times_each_time_with_a_seed_of_its_own(self, data_root: Path) -> None:
        met = [key for batch in keys(data_root, batch_size=2) for key in batch]
        assert len(met) == len({seed for _, seed in met}) == 16
        assert sorted(Counter(index for index, _ in met).values()) == [1, 3, 3, 3, 3, 3]

    def test_without_repeats_every_image_is_met_once(self, data_root: Path) -> None:
        met = [index for batch in keys(data_root, num_repeats=1) for index, _ in batch]
        assert sorted(met) == list(range(16))

    def test_only_whole_batches_are_met(self, data_root: Path) -> None:
        assert [len(batch) for batch in keys(data_root, batch_size=6)] == [6, 6]
        assert keys(data_root, batch_size=18) == []

    def test_order_and_seeds_differ_by_epoch_and_by_the_recipes_seed(self, data_root: Path) -> None:
        first, again = keys(data_root), keys(data_root)
        assert first == again
        for other in (keys(data_root, epoch=1), keys(data_root, seed=1)):
            assert [index for index, _ in other[0]] != [index for index, _ in first[0]]
            assert not {seed for batch in other for _, seed in batch} & {seed for batch in first for _, seed in batch}


class TestImages:
    def test_an_image_has_the_size_of_the_crop_its_class_and_the_models_normalisation(self, data_root: Path) -> None:
        images = images_of(data_root, **PLAIN)
        assert {images[index, 0][1] for index in range(16)} == set(CLASSES.values())
        pixels, _ = images[0, 0]
        assert pixels.shape == (3, 32, 32)
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (PREPROCESSING.mean, PREPROCESSING.std))
        raw = (pixels * std + mean) * 255
        assert torch.allclose(raw, raw.round(), atol=1e-3)
        assert 0 <= float(raw.min()) < float(raw.max()) <= 255.001

    def test_augmentation_is_a_function_of_the_key_alone(self, data_root: Path) -> None:
        images = images_of(data_root)
        torch.manual_seed(0)
        first = images[3, 11][0]
        torch.manual_seed(5)
        assert torch.equal(images[3, 11][0], first)
        assert not torch.equal(images[3, 12][0], first)
        assert float(torch.rand(())) == float(torch.rand((), generator=torch.Generator().manual_seed(5)))

    def test_random_erasing_covers_a_rectangle_with_noise(self, data_root: Path) -> None:
        plain, erased = images_of(data_root, **PLAIN), images_of(data_root, auto_augment="", random_erasing=1.0)
        changed = (plain[0, 1][0] != erased[0, 1][0]).all(dim=0)
        rows, columns = changed.any(dim=1), changed.any(dim=0)
        assert 0 < int(changed.sum()) < 32 * 32
        assert torch.equal(changed, rows[:, None] & columns[None, :])


class TestBatches:
    @pytest.mark.parametrize("decode_workers", [0, 1, 2])
    def test_no_pixel_depends_on_how_many_processes_decode(self, data_root: Path, decode_workers: int) -> None:
        images = images_of(data_root)
        of_epoch = EpochKeys(images, recipe(), epoch=0)
        torch.manual_seed(7)
        found = list(batches(of_epoch, images, decode_workers, pin=False))
        assert float(torch.rand(())) == float(torch.rand((), generator=torch.Generator().manual_seed(7)))
        for (pixels, classes), wanted in zip(found, of_epoch, strict=True):
            assert torch.equal(pixels, torch.stack([images[key][0] for key in wanted]))
            assert classes.tolist() == [images[key][1] for key in wanted]

    @pytest.mark.parametrize("decode_workers", [0, 1])
    def test_a_broken_image_is_named_in_one_line(self, tmp_path: Path, decode_workers: int) -> None:
        write_tree(tmp_path, per_class=1)
        broken = tmp_path / "imagenet-1k" / "train" / "n03000684" / "n03000684_0.JPEG"
        broken.write_bytes(b"no image")
        images = images_of(tmp_path)
        of_epoch = EpochKeys(images, recipe(batch_size=4, num_repeats=1), epoch=0)
        with pytest.raises(ExampleError, match=f"^cannot read image {broken}: it is not recognised") as caught:
            list(batches(of_epoch, images, decode_workers, pin=False))
        assert "\n" not in str(caught.value)


PIXELS = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)


@pytest.mark.parametrize("bits", range(9))
def test_so_many_of_the_highest_bits_are_kept(bits: int) -> None:
    kept = np.asarray(posterize(Image.fromarray(PIXELS), bits, fillcolor=(1, 2, 3)))
    assert np.array_equal(kept, PIXELS >> (8 - bits) << (8 - bits))


def test_policies_have_it_and_timm_is_as_before_afterwards() -> None:
    before = dict(auto_augment.NAME_TO_OP)
    with posterizing_to_black():
        operation = auto_augment.AugmentOp("PosterizeIncreasing", prob=1.0, magnitude=10)  # type: ignore[no-untyped-call]  # timm's
    assert before == auto_augment.NAME_TO_OP
    assert not np.asarray(operation(Image.fromarray(PIXELS))).any()


@pytest.mark.parametrize(("policy", "num_black"), [("rand-m9-mstd0.5-inc1", 0), ("rand-m10-inc1", 2)])
def test_policies_augment_whatever_they_draw(policy: str, num_black: int) -> None:
    transform = transform_of(recipe(auto_augment=policy, random_erasing=0.0), PREPROCESSING)
    spreads = []
    for seed in range(120):
        with seeded(seed):
            spreads.append(float(transform(Image.fromarray(PIXELS)).std(dim=(1, 2)).max()))
    assert sum(spread == 0 for spread in spreads) >= num_black
    assert len(set(spreads)) > 100


ENTRIES = {
    name: entry
    for name, entry in read_registry(shipped_registry()).items()
    if isinstance(entry.architecture, Fan) and isinstance(entry.training, DeitTraining)
}

# What all the scripts have in common: NVlabs/FAN, main.py and scripts/fan_vit/fan_net_tiny.sh, from which the others
# are derived; below the line, what its timm 0.5.4 does without an option of the script.
COMMON: dict[str, Any] = {
    "dataset": "imagenet-1k", "learning_rate": 0.002, "warmup_learning_rate": 1e-6, "min_learning_rate": 1e-6,
    "weight_decay": 0.05, "warmup_epochs": 5, "label_smoothing": 0.1, "mixup": 0.8, "cutmix": 1.0,
    "auto_augment": "rand-m9-mstd0.5-inc1", "random_erasing": 0.25, "ema_decay": 0.99992, "clip_grad": None,
} | {"cooldown_epochs": 10, "num_repeats": 1, "mixing_group_size": 128, "interpolation": "random"}  # fmt: skip
# Eight GPUs of 128 images, --drop-path .0; Twicing (arXiv:2503.00687) states no recipe but that of its DeiT.
NVLABS = {"num_epochs": 300, "batch_size": 1024, "learning_rate_batch_size": 1024, "drop_path_rate": 0.0}
# Four GPUs of 128 images (rachtsy/FAN, scripts/fan_vit/fan_net_tiny.sh); 300 epochs, as arXiv:2406.13762, E.7, states.
RPC = {"num_epochs": 300, "batch_size": 512, "learning_rate_batch_size": 512, "drop_path_rate": 0.0}
# arXiv:2506.10371, 5.3: 130 epochs, the settings of Elliptical (KurtPask/Elliptical-Attention, run_baseline_fan.sh).
ELLIPTICAL = {"num_epochs": 130, "batch_size": 512, "learning_rate_batch_size": 512, "drop_path_rate": 0.1}
TABLE: dict[str, dict[str, Any]] = {
    "fan-tiny": NVLABS,
    "sym-fan-tiny": RPC,
    "rpc-fan-tiny": RPC,
    "boost-paper-fan": ELLIPTICAL,
    "boost-fan": ELLIPTICAL,
    "twicing-paper-fan": NVLABS,
    "twicing-fan": NVLABS,
}
NAMES = sorted(TABLE)


def training_of(name: str) -> DeitTraining:
    training = ENTRIES[name].training
    assert isinstance(training, DeitTraining)
    return training


def drop_paths(model: nn.Module) -> list[float]:
    return [float(module.drop_prob or 0) for module in model.modules() if isinstance(module, DropPath)]


def small(name: str, **changes: Any) -> Checkpoint:
    """The entry for images of 32 pixels and narrow, with its own recipe but for ``changes``."""
    entry = ENTRIES[name]
    assert isinstance(entry.architecture, Fan)
    architecture = replace(entry.architecture, image_size=32, patch_size=16, dim=32, mlp_ratio=1.0)
    preprocessing = replace(entry.preprocessing, resize=32, crop=32)  # type: ignore[type-var]  # a dataclass
    training = replace(training_of(name), **changes)
    return replace(checkpoint_of(), architecture=architecture, preprocessing=preprocessing, training=training)


class TestEntries:
    def test_every_network_of_this_kind_is_in_the_table(self) -> None:
        assert set(ENTRIES) == set(TABLE)

    @pytest.mark.parametrize("name", NAMES)
    def test_fields_are_those_of_papers_and_code(self, name: str) -> None:
        training = training_of(name)
        declared = {field.name: getattr(training, field.name) for field in fields(training)}
        own = {"seed": 0, "published": "weights", "auxiliary_weight": 0.0, "distillation": "none", "teacher": None}
        assert declared == COMMON | TABLE[name] | own

    def test_the_registry_does_not_call_a_stated_recipe_unstated(self) -> None:
        text = shipped_registry().read_text()
        assert "no paper here states" not in text
        for source in ("rachtsy/FAN, scripts/fan_vit/fan_net_tiny.sh", "run_baseline_fan.sh", "NVlabs/FAN, scripts"):
            assert source in text


class TestWhatIsBuilt:
    """The objects that training uses, made from each entry's own recipe and a few images in a folder."""

    @pytest.mark.parametrize("name", NAMES)
    def test_the_peak_rate_is_two_thousandths_and_follows_the_batch(self, name: str) -> None:
        model = nn.Linear(2, 2)
        training = training_of(name)
        assert {group["lr"] for group in optimizer_of(model, training).param_groups} == {0.002}
        halved = replace(training, batch_size=training.batch_size // 2)
        assert {group["lr"] for group in optimizer_of(model, halved).param_groups} == {0.001}
        assert {group["weight_decay"] for group in optimizer_of(model, training).param_groups} == {0.0, 0.05}

    @pytest.mark.parametrize("name", NAMES)
    def test_rates_warm_up_follow_a_cosine_and_stay_at_the_minimum_for_ten_epochs(self, name: str) -> None:
        training, length = training_of(name), TABLE[name]["num_epochs"]
        optimizer = optimizer_of(nn.Linear(2, 2), training)
        schedule = schedule_of(optimizer, training)
        rates = []
        for epoch in range(training.total_epochs):
            schedule.step(epoch)
            rates.append(float(optimizer.param_groups[0]["lr"]))
        rising = [1e-6 + (2e-3 - 1e-6) * epoch / 5 for epoch in range(5)]
        falling = [1e-6 + (2e-3 - 1e-6) * (1 + cos(pi * epoch / length)) / 2 for epoch in range(5, length)]
        assert rates == pytest.approx(rising + falling + [1e-6] * 10, rel=1e-9)

    @pytest.mark.parametrize("name", NAMES)
    def test_the_learner_has_the_rate_the_decay_and_the_dropping_of_the_entry(self, name: str) -> None:
        entry = small(name)
        training = training_of(name)
        rate = TABLE[name]["drop_path_rate"]
        model = build(entry.architecture, rate)
        assert drop_paths(model) == ([rate] * 24 if rate else [])
        learner = DeitLearner(model, training, Host(data_root=None), lambda epoch: iter([]), model)
        assert learner._average is not None
        assert learner._average.decay == 0.99992
        assert {group["initial_lr"] for group in learner._optimizer.param_groups} == {0.002}
        assert learner._schedule.t_initial == TABLE[name]["num_epochs"]
        assert learner._mixing._group_size == 128

    @pytest.mark.parametrize("name", NAMES)
    def test_an_epoch_has_every_image_once(self, data_root: Path, name: str) -> None:
        entry = small(name, batch_size=4)
        assert isinstance(entry.training, DeitTraining)
        assert isinstance(entry.preprocessing, ImagePreprocessing)
        images = TrainingImages(data_root, entry.training, entry.preprocessing)
        indices = [index for batch in EpochKeys(images, entry.training, epoch=3) for index, _ in batch]
        assert sorted(indices) == list(range(16))
        assert "interpolation=bilinear bicubic" in repr(transform_of(entry.training, entry.preprocessing))

    def test_training_drops_paths_and_ends_as_declared(self, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        built: list[nn.Module] = []
        start = DeitLearner.__init__

        def kept(self: DeitLearner, model: nn.Module, *others: Any) -> None:
            built.append(model)
            start(self, model, *others)

        monkeypatch.setattr(DeitLearner, "__init__", kept)
        reports: list[EpochReport] = []
        for name in ("boost-fan", "rpc-fan-tiny"):
            entry = small(name, num_epochs=2, batch_size=8, cooldown_epochs=1, warmup_epochs=1)
            train_deit(entry, Host(data_root=data_root), reports.append)
        assert [drop_paths(model) for model in built] == [[0.1] * 24, []]
        assert [(report.epoch, report.num_epochs) for report in reports] == [(1, 3), (2, 3), (3, 3)] * 2


class TestNewFields:
    def test_defaults_are_deits(self) -> None:
        plain = DeitTraining(dataset="imagenet-1k")
        assert (plain.learning_rate_batch_size, plain.cooldown_epochs, plain.total_epochs) == (512, 0, 300)
        assert (plain.mixing_group_size, plain.interpolation) == (256, "preprocessing")
        assert {group["lr"] for group in optimizer_of(nn.Linear(2, 2), plain).param_groups} == {1e-3}

    @pytest.mark.parametrize(("for_batch", "peak"), [(512, 0.004), (1024, 0.002), (2048, 0.001)])
    def test_the_rate_is_for_the_batch_that_is_named(self, for_batch: int, peak: float) -> None:
        training = recipe(batch_size=1024, learning_rate=0.002, learning_rate_batch_size=for_batch)
        assert {group["lr"] for group in optimizer_of(nn.Linear(2, 2), training).param_groups} == {peak}

    def test_cooling_down_goes_on_learning_at_the_minimum(self, tmp_path: Path) -> None:
        host = Host(data_root=write_tree(tmp_path))
        weights = {
            epochs: train_deit(checkpoint_of(num_epochs=1, warmup_epochs=0, cooldown_epochs=epochs), host)
            for epochs in (0, 1, 2)
        }
        steps = [
            float((weights[after]["head.weight"] - weights[after - 1]["head.weight"]).abs().max()) for after in (1, 2)
        ]
        # Two batches an epoch, and a step of AdamW is about as long as its rate.
        assert all(0 < step < 3 * 1e-5 for step in steps)

    def test_a_stopped_cool_down_goes_on(self, tmp_path: Path) -> None:
        entry = checkpoint_of(num_epochs=1, cooldown_epochs=2)
        host = Host(data_root=write_tree(tmp_path), state_path=tmp_path / "state")
        with pytest.raises(KeyboardInterrupt):
            train_deit(entry, host, interrupt_after(2))
        heard: list[int] = []
        resumed = train_deit(entry, host, lambda report: heard.append(report.epoch))
        assert heard == [3]
        whole = train_deit(entry, replace(host, state_path=None))
        assert same(resumed, whole)

    @pytest.mark.parametrize("group", [2, 4, 8])
    def test_examples_are_mixed_within_groups_of_the_declared_size(self, group: int) -> None:
        images = torch.arange(8.0).reshape(-1, 1, 1, 1).expand(-1, 3, 8, 8).clone()
        training = recipe(batch_size=8, mixing_group_size=group, label_smoothing=0.0)
        targets = Mixing(training, num_classes=8)(images, torch.arange(8), seed=1)
        for i, row in enumerate(targets):
            start = i // group * group
            assert set(row.nonzero().flatten().tolist()) == {i, start + group - 1 - (i - start)}

    def test_crops_are_resized_as_declared(self, tmp_path: Path) -> None:
        root = write_tree(tmp_path, per_class=1)
        preprocessing = replace(checkpoint_of().preprocessing, interpolation="bicubic")  # type: ignore[type-var]  # a dataclass
        assert isinstance(preprocessing, ImagePreprocessing)
        plain = {"auto_augment": "", "random_erasing": 0.0}
        images = {
            kind: TrainingImages(root, recipe(interpolation=kind, **plain), preprocessing)
            for kind in ("preprocessing", "bicubic", "bilinear", "random")
        }
        seeds = range(20)
        crops = {kind: [images[kind][0, seed][0] for seed in seeds] for kind in images}
        assert all(torch.equal(*pair) for pair in zip(crops["preprocessing"], crops["bicubic"], strict=True))
        assert not any(torch.equal(*pair) for pair in zip(crops["bilinear"], crops["bicubic"], strict=True))
        again = [images["random"][0, seed][0] for seed in seeds]
        assert all(torch.equal(*pair) for pair in zip(again, crops["random"], strict=True))
        assert not all(torch.equal(*pair) for pair in zip(crops["random"], crops["bicubic"], strict=True))
