"""Training images: which ones an epoch meets, in what order, and augmented how."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import auto_augment
from training_examples import CLASSES, PREPROCESSING, recipe, write_tree

from robench.core.errors import ExampleError
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
