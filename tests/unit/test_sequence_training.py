"""Training on series, and of segmentation models: interruptions change no bit, and the epochs that are scored."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from training_examples import entry_of
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.declarations.preprocessing import ImagePreprocessing, NoPreprocessing
from robench.models.build import build
from robench.models.segmenter import Segmenter
from robench.models.series import Series
from robench.models.vit import Vit
from robench.tasks.segmentation import IGNORED
from robench.training import segmentation_impl, sequences_impl
from robench.training.base import EpochReport, Host
from robench.training.optimization import saved
from robench.training.segmentation import SegmentationTraining
from robench.training.segmentation_impl import augmented, distorted, mean_loss, rate_at, train
from robench.training.sequences import SequenceTraining
from robench.training.sequences_impl import train as train_sequences

SMALL = Series(num_steps=29, num_channels=12, num_classes=9, dim=8, num_heads=2, feedforward=8, dropout=0.1, depth=1)
RECIPE = SequenceTraining(dataset="japanese-vowels", seed=3, num_epochs=5, batch_size=64)


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with series of noise of the sizes of JapaneseVowels, whose classes differ in their means."""
    root: Path = tmp_path_factory.mktemp("data")
    folder = root / "JapaneseVowels"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split, count in (("TRAIN", 270), ("TEST", 370)):
        lines = ["@classLabel true 1 2 3 4 5 6 7 8 9", "@data"]
        for number in range(count):
            values = generator.normal(number % 9 / 8, 1.0, (12, generator.integers(7, 29))).round(3)
            lines.append(":".join([*(",".join(map(str, channel)) for channel in values), str(number % 9 + 1)]))
        (folder / f"JapaneseVowels_{split}.ts").write_text("\n".join(lines))
    return root


def series_entry(**changes: Any) -> Checkpoint:
    return entry_of(SMALL, NoPreprocessing(inputs="series"), replace(RECIPE, **changes))


def trained(host: Host, **changes: Any) -> tuple[dict[str, Tensor], list[EpochReport]]:
    reports: list[EpochReport] = []
    return train_sequences(series_entry(**changes), host, reports.append), reports


def test_every_second_epoch_and_the_last_are_scored_and_the_best_of_them_is_published(data_root: Path) -> None:
    host = Host(data_root=data_root)
    # A rate at which accuracy falls again, so that the best epoch is not the last one.
    best, reports = trained(host, selection="best-on-test", learning_rate=0.3)
    scored = {each.epoch: each.validation.top1_accuracy for each in reports if each.validation is not None}
    assert list(scored) == [2, 4, 5]
    chosen = max(scored, key=lambda epoch: (scored[epoch] or 0.0, -epoch))
    assert chosen != 5
    assert same(best, trained(host, num_epochs=chosen, learning_rate=0.3)[0])
    assert not same(best, trained(host, learning_rate=0.3)[0])


def test_the_loss_of_an_epoch_is_the_mean_over_its_examples(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, int]] = []

    class Watched(sequences_impl.SequenceLearner):
        def epoch(self, epoch: int) -> tuple[float, int]:
            with torch.no_grad():
                wanted = float(torch.nn.functional.cross_entropy(self._outputs(self._inputs), self._targets))
            loss, count = super().epoch(epoch)
            seen.append((wanted, count))
            return loss, count

    monkeypatch.setattr(sequences_impl, "SequenceLearner", Watched)
    # Weights hardly change; batches of 64 leave 14 of 270 examples for the last step.
    checkpoint = series_entry(num_epochs=1, learning_rate=1e-9)
    reports: list[EpochReport] = []
    architecture = replace(SMALL, dropout=0.0)
    train_sequences(replace(checkpoint, architecture=architecture), Host(data_root=data_root), reports.append)
    assert [count for _, count in seen] == [270]
    assert reports[0].loss_nats == pytest.approx(seen[0][0], abs=1e-5)


def test_an_interrupted_training_resumes_to_the_same_weights_and_scores(data_root: Path, tmp_path: Path) -> None:
    whole, reports = trained(Host(data_root=data_root), selection="best-on-test", evaluate_every=1)
    host = Host(data_root=data_root, state_path=tmp_path / "state")
    for epoch in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            train_sequences(series_entry(selection="best-on-test", evaluate_every=1), host, interrupt_after(epoch))
    resumed, rest = trained(host, selection="best-on-test", evaluate_every=1)
    assert same(resumed, whole)
    assert [each.validation for each in rest] == [each.validation for each in reports[3:]]


def test_denormals_are_zero_in_training_and_change_no_weight(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denormal() -> float:
        return float(torch.full((), 1e-40) * 1.0)

    seen: list[float] = []
    # Attention is nearly one-hot, so that 100,000 gradients of linear layers are denormal.
    entry = replace(series_entry(learning_rate=0.3, num_epochs=2), architecture=replace(SMALL, dim=128, num_heads=1))
    flushed = train_sequences(entry, Host(data_root=data_root), lambda report: seen.append(denormal()))
    assert seen == [0.0, 0.0] != [denormal()] * 2
    monkeypatch.setattr(sequences_impl, "flushing_denormals", nullcontext)
    kept = train_sequences(entry, Host(data_root=data_root), lambda report: seen.append(denormal()))
    assert 0.0 not in seen[2:]
    assert same(kept, flushed)


def test_best_on_split_scores_a_part_that_is_not_learned_from(data_root: Path) -> None:
    host = Host(data_root=data_root)
    _, reports = trained(host, selection="best-on-split", held_out=0.2, evaluate_every=5)
    assert [each.validation and each.validation.num_examples for each in reports] == [None] * 4 + [54]
    _, whole = trained(host, evaluate_every=5)
    assert reports[0].loss_nats != whole[0].loss_nats


@pytest.mark.parametrize(
    ("selection", "settings", "words"),
    [
        ("last", "best-on-test", "selected on test: the settings are those of the grid with"),
        ("best-on-test", "best-on-test", "the weights are those of the epoch and the settings are those of the grid"),
        ("best-on-test", "given", "selected on test: the weights are those of the epoch with"),
    ],
)
def test_the_caveat_says_what_was_selected_on_test(selection: str, settings: str, words: str) -> None:
    assert words in replace(RECIPE, selection=selection, settings=settings).caveat


def test_what_was_not_selected_on_test_has_no_caveat() -> None:
    assert replace(RECIPE, selection="best-on-split").caveat == ""


ARCHITECTURE = Segmenter(
    image_size=16, patch_size=4, num_channels=3, num_classes=11, depth=1, dim=16, num_heads=2, mlp_ratio=1.0,
    decoder="linear",
)  # fmt: skip
PREPROCESSING = ImagePreprocessing(mean=(0.3, 0.4, 0.5), std=(0.2, 0.3, 0.4))
FILL = torch.tensor([0.3, 0.4, 0.5])


def recipe(**changes: Any) -> SegmentationTraining:
    plain: dict[str, Any] = {"scales": (1, 1), "largest_class": 1, "flip": False, "distortion": False, "drop_path": 0}
    fields = {"num_epochs": 3, "batch_size": 4, "crop_size": 16, **plain}
    return SegmentationTraining(dataset="digit-scenes", seed=0, **(fields | changes))


class Scenes:
    """Images whose colour is the class of a pixel, in eighths."""

    def __init__(self, size: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.targets = torch.randint(0, 8, (size, 5, 6), generator=generator).repeat_interleave(4, 1)
        self.targets = self.targets.repeat_interleave(4, 2)
        self.images = (self.targets / 8)[:, None].expand(-1, 3, -1, -1).contiguous()
        self.identity = DatasetIdentity(name="digit-scenes", fingerprint="0" * 32, num_examples=size)

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, start: int, stop: int) -> Batch:
        ids = tuple(map(str, range(start, stop)))
        return Batch(ids=ids, inputs=self.images[start:stop], targets=self.targets[start:stop])


@pytest.fixture
def scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation_impl, "open_dataset", lambda *_, **named: Scenes(10 if "split" in named else 4))


def checkpoint_of(folder: Path, training: SegmentationTraining) -> Checkpoint:
    return entry_of(ARCHITECTURE, PREPROCESSING, training, task="segmentation", folder=folder)


def test_an_interrupted_training_gives_the_bytes_of_an_uninterrupted_one(tmp_path: Path, scenes: None) -> None:
    training = recipe(scales=(0.5, 2.0), largest_class=0.75, flip=True, distortion=True, drop_path=0.1)
    checkpoint = checkpoint_of(tmp_path, training)
    reports: list[EpochReport] = []
    whole = train(checkpoint, Host(data_root=None), reports.append)
    assert [each.epoch for each in reports] == [1, 2, 3]
    assert all(each.validation is not None and each.validation.num_examples == 4 for each in reports)
    host = Host(data_root=None, state_path=tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        train(checkpoint, host, interrupt_after(2))
    assert same(train(checkpoint, host), whole)


def test_the_number_of_decoding_processes_changes_no_byte(tmp_path: Path, scenes: None) -> None:
    training = replace(recipe(scales=(0.5, 2.0), flip=True, distortion=True, num_epochs=1), dataset="ade20k")
    assert not training.is_embedded
    checkpoint = replace(checkpoint_of(tmp_path, training), architecture=replace(ARCHITECTURE, num_classes=150))
    alone, beside = (train(checkpoint, Host(data_root=None, decode_workers=number)) for number in (0, 2))
    assert same(alone, beside)


def test_colours_are_learned(tmp_path: Path, scenes: None) -> None:
    training = recipe(num_epochs=30, optimizer="adamw", learning_rate=0.01, batch_size=5, evaluate_every=10)
    reports: list[EpochReport] = []
    train(checkpoint_of(tmp_path, training), Host(data_root=None), reports.append)
    scored = [(each.epoch, each.validation) for each in reports if each.validation is not None]
    assert [epoch for epoch, _ in scored] == [10, 20, 30]
    accuracy = [scores.top1_accuracy for _, scores in scored]
    # One of eight colours by chance.
    assert accuracy[-1] is not None
    assert accuracy[-1] > 0.4


@pytest.mark.parametrize("seed", range(8))
def test_a_mask_moves_with_its_image(seed: int) -> None:
    scene = Scenes(1)
    training = recipe(scales=(0.5, 2.0), largest_class=0.75, flip=True)
    # A mask of another size than the image, as of an image that was resized for the network.
    mask = scene.targets[0].repeat_interleave(2, 0).repeat_interleave(2, 1) if seed % 2 else scene.targets[0]
    image, moved = augmented(scene.images[0], mask, training, FILL, torch.Generator().manual_seed(seed))
    assert image.shape == (3, 16, 16)
    assert moved.shape == (16, 16)
    inside = moved != IGNORED
    wrong = (image[0] * 8 - moved).abs()[inside] > 0.5
    # Colours are interpolated between places of different classes.
    assert wrong.double().mean() < 0.45
    assert torch.equal(image[:, ~inside], FILL[:, None].expand(3, int((~inside).sum())))


def test_a_crop_has_no_class_of_too_many_pixels_if_another_has_not() -> None:
    mask = torch.zeros(40, 40, dtype=torch.int64)
    mask[:, 20:] = 1
    image = torch.zeros(3, 40, 40)

    def largest(training: SegmentationTraining) -> float:
        found = []
        for seed in range(30):
            _, crop = augmented(image, mask, training, FILL, torch.Generator().manual_seed(seed))
            found.append(float(torch.bincount(crop.flatten()).max()) / crop.numel())
        return sum(each < 0.75 for each in found) / len(found)

    # 8 of 25 places are within the limit; ten draws find one in 98 % of the cases.
    assert largest(recipe(largest_class=0.75)) > 0.9
    assert largest(recipe()) < 0.6


def test_half_of_the_images_are_mirrored() -> None:
    scene = Scenes(1)
    found = [
        augmented(scene.images[0][:, :16, :16], scene.targets[0][:16, :16], recipe(flip=True), FILL, generator)[1]
        for generator in (torch.Generator().manual_seed(seed) for seed in range(40))
    ]
    target = scene.targets[0][:16, :16]
    mirrored = sum(torch.equal(each, target.flip(-1)) for each in found)
    assert mirrored + sum(torch.equal(each, target) for each in found) == 40
    assert 10 <= mirrored <= 30


def test_colours_change_within_the_bounds_of_the_recipe() -> None:
    grey = torch.full((3, 8, 8), 0.5)
    levels = torch.stack([distorted(grey, torch.Generator().manual_seed(seed))[0, 0, 0] for seed in range(300)])
    assert 0.5 * (0.5 - 32 / 255) - 0.02 < float(levels.min()) < 0.25
    assert 0.75 < float(levels.max()) < 1.5 * (0.5 + 32 / 255) + 0.02
    unchanged = (levels - 0.5).abs() < 0.005
    # Brightness and contrast are left as they are with probability 1/2 each.
    assert 0.15 < float(unchanged.double().mean()) < 0.4
    red = torch.zeros(3, 4, 4)
    red[0] = 1
    found = [distorted(red, torch.Generator().manual_seed(seed)) for seed in range(200)]
    pixels = [Image.fromarray((each * 255).byte().permute(1, 2, 0).numpy()).convert("HSV") for each in found]
    hues = np.array([np.array(each)[0, 0, 0].astype(int) for each in pixels])
    moved = np.minimum(hues, 256 - hues)
    assert moved.max() <= 256 * 18 / 180 + 2
    assert moved.max() > 15
    assert 0.3 < (moved <= 1).mean() < 0.75


def test_the_rate_rises_and_falls_with_the_power_of_what_is_left() -> None:
    training = recipe(learning_rate=0.1, last_rate=0.01, warmup=0.2)
    assert rate_at(0.1, training) == pytest.approx(0.05, abs=1e-3)
    assert rate_at(0.2, training) == pytest.approx(0.1)
    assert rate_at(0.6, training) == pytest.approx(0.01 + 0.09 * 0.5**0.9)
    assert rate_at(1.0, training) == pytest.approx(0.01)
    assert rate_at(0.0, replace(training, warmup=0.0)) == pytest.approx(0.1)


def test_the_loss_is_the_mean_of_the_pixels_that_count() -> None:
    logits = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    masks = torch.zeros(2, 4, 4, dtype=torch.int64)
    masks[0] = IGNORED
    one: Tensor = torch.nn.functional.cross_entropy(logits[1:], masks[1:])
    assert torch.allclose(mean_loss(logits, masks), one)
    masks[1] = IGNORED
    assert mean_loss(logits, masks) == 0


def test_the_encoder_starts_with_the_weights_of_a_classifier(tmp_path: Path, scenes: None) -> None:
    classifier = build(
        Vit(image_size=8, patch_size=4, num_channels=3, num_classes=5, depth=1, dim=16, num_heads=2, mlp_ratio=1.0)
    )
    save_file(saved(classifier.state_dict(), "float32"), tmp_path / "classifier.safetensors")
    initial = Weights(uri="classifier.safetensors", sha256=None)
    training = recipe(num_epochs=1, learning_rate=1e-9, last_rate=0.0, initial_weights=initial)
    found = train(checkpoint_of(tmp_path, training), Host(data_root=None))
    name = "blocks.0.attn.qkv.weight"
    assert torch.allclose(found[f"encoder.{name}"], classifier.state_dict()[name], atol=1e-6)
    assert found["encoder.pos_embed"].shape == (1, 17, 16)
