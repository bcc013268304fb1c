"""What every dataset promises, over all that are declared."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops
from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # ships no types

from robench.core.identity import key_of
from robench.datasets import DATASETS, open_dataset
from robench.datasets import digits_impl as digits
from robench.datasets import rendered_digits_impl as rendered_digits
from robench.datasets.base import DatasetDeclaration
from robench.datasets.glyphs import fit
from robench.datasets.layouts import layout_of
from robench.declarations.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), resize=40, crop=32)
# The 95 of ImageNet-C differ in nothing but their folders, and so do resize rules in one word: one of each is enough.
NAMES = [*sorted(name for name in DATASETS if "/" not in name), "imagenet-a/bilinear", "imagenet-c/gaussian_noise/3"]


@dataclass(frozen=True)
class Source:
    """A declared dataset on this machine: how to open it, and how to change one of its images.

    ``shared`` is one that was opened before, where that takes long.
    """

    declared: DatasetDeclaration
    open: Callable[[], Any]
    change_an_image: Callable[[], None]
    shared: Callable[[], Any]


def write_image(path: Path, seed: int, size: tuple[int, int] = (56, 48)) -> None:
    """Blocks of colour: JPEG keeps them, and no two seeds look alike."""
    blocks = np.random.default_rng(seed).integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(blocks.repeat(8, 0).repeat(8, 1)).save(path)


def folder_source(declared: DatasetDeclaration, data_root: Path) -> Source:
    layout = layout_of(declared)
    classes = list(layout.classes)
    images = [
        data_root / layout.places[0] / wordnet_id / f"ILSVRC2012_val_{number:08d}.JPEG"
        for wordnet_id in (classes[0], classes[50], classes[-3], classes[-1])
        for number in range(3)
    ]
    for seed, image in enumerate(images):
        write_image(image, seed)

    def opened() -> Any:
        return open_dataset(declared.name, data_root=data_root, preprocessing=SMALL)

    return Source(declared, opened, lambda: write_image(images[5], seed=99), opened)


@cache
def opened_once(name: str) -> Any:
    return open_dataset(name, data_root=None, preprocessing=None)


def embedded_source(declared: DatasetDeclaration, monkeypatch: pytest.MonkeyPatch) -> Source:
    def opened() -> Any:
        return open_dataset(declared.name, data_root=None, preprocessing=None)

    def shift_a_scan() -> None:
        scans = load_digits()
        position = int(opened_once(declared.name).ids[5].removeprefix("digits/"))
        scans.images[position] = np.roll(scans.images[position], 3)
        monkeypatch.setattr(digits, "load_digits", lambda: scans)

    def draw_otherwise() -> None:
        monkeypatch.setattr(rendered_digits, "fit", lambda *arguments: ImageChops.invert(fit(*arguments)))

    is_rendered = declared.name in ("digits-r", "digits-o")
    change = draw_otherwise if is_rendered else shift_a_scan
    return Source(declared, opened, change, lambda: opened_once(declared.name))


@pytest.fixture(params=NAMES)
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    declared = DATASETS[request.param]
    return embedded_source(declared, monkeypatch) if declared.folder is None else folder_source(declared, tmp_path)


def test_every_declared_dataset_can_be_opened_and_no_other() -> None:
    assert all(callable(declared.implemented()) for declared in DATASETS.values())


class TestEveryDataset:
    def test_has_the_name_and_the_classes_that_are_declared(self, source: Source) -> None:
        dataset = source.shared()
        assert dataset.identity.name == source.declared.name
        targets = dataset.batch(0, len(dataset)).targets
        assert targets.min() >= 0
        assert targets.max() < source.declared.num_classes

    def test_has_as_many_examples_as_its_identity_says(self, source: Source) -> None:
        dataset = source.shared()
        assert len(dataset) == dataset.identity.num_examples == len(list(dataset)) == len(dataset.ids)
        assert len(dataset) <= source.declared.num_examples
        if source.declared.folder is None:
            assert len(dataset) == source.declared.num_examples

    def test_gives_square_rgb_images_in_the_unit_range(self, source: Source) -> None:
        dataset = source.shared()
        image, label = dataset[0]
        assert image.shape == (3, 32, 32)
        assert type(label) is int
        batch = dataset.batch(0, 8)
        assert batch.inputs.shape == (8, 3, 32, 32)
        assert batch.inputs.dtype == torch.float32
        assert batch.inputs.is_contiguous()
        assert batch.targets.dtype == torch.int64
        assert batch.inputs.min() >= 0
        assert 0.5 < batch.inputs.max() <= 1

    def test_ids_are_unique_and_in_the_order_of_their_hash(self, source: Source) -> None:
        ids = source.shared().ids
        assert len(set(ids)) == len(ids)
        assert list(ids) == sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())

    def test_a_batch_is_its_items(self, source: Source) -> None:
        dataset = source.shared()
        batch = dataset.batch(2, 7)
        assert batch.ids == dataset.ids[2:7]
        for row, index in enumerate(range(2, 7)):
            image, label = dataset[index]
            assert torch.equal(batch.inputs[row], image)
            assert batch.targets[row] == label

    def test_neighbouring_batches_are_the_wide_batch(self, source: Source) -> None:
        dataset = source.shared()
        wide, left, right = dataset.batch(0, 9), dataset.batch(0, 4), dataset.batch(4, 9)
        assert wide.ids == left.ids + right.ids
        assert torch.equal(wide.inputs, torch.cat([left.inputs, right.inputs]))
        assert torch.equal(wide.targets, torch.cat([left.targets, right.targets]))

    def test_the_first_examples_are_of_several_classes(self, source: Source) -> None:
        is_unlabelled = source.declared.is_out_of_distribution and source.declared.folder is None
        assert len(set(source.shared().batch(0, 8).targets.tolist())) >= (1 if is_unlabelled else 3)

    def test_negative_indices_count_from_the_end(self, source: Source) -> None:
        dataset = source.shared()
        assert torch.equal(dataset[-1][0], dataset[len(dataset) - 1][0])
        assert dataset[-len(dataset)][1] == dataset[0][1]

    @pytest.mark.parametrize("beyond", [0, 7])
    def test_an_index_outside_is_an_index_error(self, source: Source, beyond: int) -> None:
        dataset = source.shared()
        with pytest.raises(IndexError, match=f"asked for {len(dataset) + beyond}"):
            dataset[len(dataset) + beyond]
        with pytest.raises(IndexError):
            dataset[-len(dataset) - 1 - beyond]

    def test_a_batch_that_is_not_there_in_full_is_an_index_error(self, source: Source) -> None:
        dataset = source.shared()
        for start, stop in [(0, len(dataset) + 1), (-1, 1), (3, 3), (4, 3)]:
            with pytest.raises(IndexError, match=re.escape(f"[{start}, {stop})")):
                dataset.batch(start, stop)

    def test_writing_into_a_batch_changes_no_later_one(self, source: Source) -> None:
        dataset = source.shared()
        kept = dataset.batch(0, 3).inputs.clone()
        written = dataset.batch(0, 3)
        written.inputs.zero_()
        written.targets.fill_(-1)
        dataset[0][0].zero_()
        assert torch.equal(dataset.batch(0, 3).inputs, kept)
        assert dataset.batch(0, 3).targets.min() >= 0

    def test_two_openings_are_the_same_dataset(self, source: Source) -> None:
        first, second = source.open(), source.open()
        assert first.identity == second.identity
        assert first.ids == second.ids
        assert torch.equal(first.batch(0, 5).inputs, second.batch(0, 5).inputs)

    def test_the_fingerprint_is_a_sha256_that_a_changed_image_changes(self, source: Source) -> None:
        before = source.open().identity
        source.change_an_image()
        after = source.open().identity
        assert re.fullmatch("[0-9a-f]{64}", before.fingerprint)
        assert after.num_examples == before.num_examples
        assert after.fingerprint != before.fingerprint
        assert key_of(after) != key_of(before)

    def test_neither_reads_nor_moves_the_global_generators(self, source: Source) -> None:
        def states() -> tuple[object, ...]:
            return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()

        first = source.open()
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        before = states()
        second = source.open()
        second.batch(0, 4)
        assert states() == before
        assert first.ids == second.ids
