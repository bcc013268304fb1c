"""What every dataset promises, over all that are declared."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageChops
from series_files import labels_of, series_of, write_ts

from robench.core.identity import key_of
from robench.datasets import DATASETS, digit_scenes_impl, listops_impl, open_dataset, sotu_impl
from robench.datasets import digit_shifts_impl as digit_shifts
from robench.datasets import digits_impl as digits
from robench.datasets.base import DatasetBase
from robench.datasets.cifar import PublishedCifar
from robench.datasets.digit_shifts_impl import fit
from robench.datasets.episodes import EpisodeSet
from robench.datasets.imagenet_folder import layout_of
from robench.datasets.in_memory import InMemoryImages
from robench.datasets.lra import LISTOPS_SHORT, TokenSet
from robench.datasets.published_texts import LabelledFiles, TokenFiles
from robench.datasets.segmentation import Ade20k
from robench.datasets.uea import UeaSet
from robench.declarations.preprocessing import ImagePreprocessing
from robench.testing.dataset import DATASET_CHECKS, Opened
from robench.testing.expectations import DECLARATION_CHECKS, run_checks

SMALL = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), resize=40, crop=32)
# The 95 of ImageNet-C differ in nothing but their folders, those of the UEA archive in sizes, and resize rules in one
# word: one of each is enough.
# Files of texts, arrays and tokens have fixtures of their own: tests/unit/test_datasets_wikitext.py,
# test_datasets_sentiment.py, test_datasets_cifar.py, test_datasets_lra.py and test_datasets_segmentation.py.
OTHER_FILES = (TokenFiles, LabelledFiles, PublishedCifar, UeaSet, Ade20k)
NAMES = sorted(
    name
    for name, each in DATASETS.items()
    if "/" not in name and not isinstance(each, OTHER_FILES) and not (isinstance(each, TokenSet) and each.folder)
)
NAMES += ["imagenet-a/bilinear", "imagenet-c/gaussian_noise/3", "japanese-vowels"]


@dataclass(frozen=True)
class Source:
    """A declared dataset on this machine: how to open it, and how to change one of its examples.

    ``shared`` is one that was opened before, where that takes long.
    """

    declared: DatasetBase
    open: Callable[[], Any]
    change_an_example: Callable[[], None]
    shared: Callable[[], Any]


def write_image(path: Path, seed: int, size: tuple[int, int] = (56, 48)) -> None:
    """Blocks of colour: JPEG keeps them, and no two seeds look alike."""
    blocks = np.random.default_rng(seed).integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(blocks.repeat(8, 0).repeat(8, 1)).save(path)


def folder_source(declared: DatasetBase, data_root: Path) -> Source:
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


def series_source(published: UeaSet, data_root: Path) -> Source:
    """Return a set of the UEA archive with fewer and shorter series."""
    sizes = {"num_examples": 12, "num_training_examples": 9, "num_steps": 7, "num_channels": 2, "num_classes": 3}
    declared = replace(published, sha256s=(), **sizes)
    test, train = (series_of(count, seed=count) for count in (12, 9))
    folder = data_root / str(declared.folder)

    def write() -> None:
        for split, series in (("test", test), ("train", train)):
            write_ts(folder / declared.file_of(split), series, labels_of(len(series)))

    def change() -> None:
        test[5][2, 1] += 0.01
        write()

    def opened() -> Any:
        return open_dataset(declared, data_root=data_root, preprocessing=None)

    write()
    return Source(declared, opened, change, opened)


def episode_source(published: EpisodeSet) -> Source:
    """Return an environment, of which another release would be another target return."""
    wanted = [published.target_return]

    def opened() -> Any:
        return open_dataset(replace(published, target_return=wanted[0]), data_root=None, preprocessing=None)

    def change() -> None:
        wanted[0] += 1

    return Source(published, opened, change, lambda: opened_once(published.name))


def source_of(name: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    declared = DATASETS[name]
    if isinstance(declared, UeaSet):
        return series_source(declared, data_root)
    if isinstance(declared, EpisodeSet):
        return episode_source(declared)
    return embedded_source(declared, monkeypatch) if declared.folder is None else folder_source(declared, data_root)


@cache
def opened_once(name: str) -> Any:
    return open_dataset(name, data_root=None, preprocessing=None)


def change_a_digit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that changes the first digit of the generated expressions."""
    made = listops_impl.made

    def changed(*arguments: Any) -> Any:
        rows = made(*arguments)
        flat = rows.flat.copy()
        place = int((flat < 10).argmax())
        flat[place] = (flat[place] + 1) % 10
        return replace(rows, flat=flat)

    def change() -> None:
        # The digest of the declaration is that of the expressions as they are.
        monkeypatch.setitem(DATASETS.builtin, LISTOPS_SHORT.name, replace(LISTOPS_SHORT, sha256s=()))  # type: ignore[arg-type]  # a dict
        monkeypatch.setattr(listops_impl, "made", changed)

    return change


def embedded_source(declared: DatasetBase, monkeypatch: pytest.MonkeyPatch) -> Source:
    def opened() -> Any:
        return open_dataset(declared.name, data_root=None, preprocessing=None)

    def shift_a_scan() -> None:
        rows = digits.source_rows()
        position = int(opened_once(declared.name).ids[5].removeprefix("digits/"))
        rows[position, :64] = np.roll(rows[position, :64], 3)
        monkeypatch.setattr(digits, "source_rows", lambda: rows)
        # Without its cache.
        monkeypatch.setattr(digits, "_scans", digits._scans.__wrapped__)

    def add_a_word() -> None:
        # To each paragraph of an address, which may be an example of its own.
        first = "/".join(opened_once(declared.name).ids[5].split("/")[:2])
        changed = {**sotu_impl.addresses(), first: sotu_impl.addresses()[first].replace("\n", " further\n")}
        monkeypatch.setattr(sotu_impl, "addresses", lambda: changed)

    def draw_otherwise() -> None:
        monkeypatch.setattr(digit_shifts, "fit", lambda *arguments: ImageChops.invert(fit(*arguments)))

    def invert() -> None:
        made = InMemoryImages.__init__

        def inverted(self: InMemoryImages, name: str, targets: Any, pixels: Any) -> None:
            made(self, name, targets, {each: 1 - image for each, image in pixels.items()})

        monkeypatch.setattr(InMemoryImages, "__init__", inverted)

    def draw_less() -> None:
        drawn = digit_scenes_impl.drawn
        monkeypatch.setattr(digit_scenes_impl, "drawn", lambda scans: drawn(scans) // 2)

    is_rendered = declared.name in ("digits-r", "digits-o")
    change = draw_otherwise if is_rendered else shift_a_scan
    first, _, _ = opened_once(declared.name).ids[5].partition("/")
    if not is_rendered:
        changes = {"sotu": add_a_word, "digits": shift_a_scan, "digit-scenes": draw_less}
        change = (changes | {"listops-short": change_a_digit(monkeypatch)}).get(first, invert)
    return Source(declared, opened, change, lambda: opened_once(declared.name))


@pytest.fixture(params=NAMES)
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return source_of(request.param, tmp_path, monkeypatch)


OF_IMAGES = [name for name in NAMES if (DATASETS[name].domain, DATASETS[name].task) == ("images", "classification")]


@pytest.fixture(params=OF_IMAGES)
def images(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return source_of(request.param, tmp_path, monkeypatch)


def test_every_declared_dataset_can_be_opened_and_no_other() -> None:
    assert all(callable(declared.implemented()) for declared in DATASETS.values())


class TestEveryDataset:
    def test_it_keeps_what_every_dataset_promises(self, source: Source) -> None:
        run_checks(source.declared.name, DECLARATION_CHECKS, source.declared)
        run_checks(source.declared.name, DATASET_CHECKS, Opened(source.declared, source.open))

    @pytest.mark.parametrize("beyond", [0, 7])
    def test_an_index_outside_is_named(self, source: Source, beyond: int) -> None:
        dataset = source.shared()
        with pytest.raises(IndexError, match=f"asked for {len(dataset) + beyond}"):
            dataset[len(dataset) + beyond]

    def test_a_batch_that_is_not_there_in_full_is_named(self, source: Source) -> None:
        dataset = source.shared()
        for start, stop in [(0, len(dataset) + 1), (-1, 1), (3, 3), (4, 3)]:
            with pytest.raises(IndexError, match=re.escape(f"[{start}, {stop})")):
                dataset.batch(start, stop)

    def test_a_changed_example_changes_the_fingerprint(self, source: Source) -> None:
        before = source.open().identity
        source.change_an_example()
        after = source.open().identity
        assert after.num_examples == before.num_examples
        assert after.fingerprint != before.fingerprint
        assert key_of(after) != key_of(before)


class TestEveryDatasetOfImages:
    def test_all_targets_are_classes(self, images: Source) -> None:
        targets = images.shared().batch(0, len(images.shared())).targets
        assert targets.min() >= 0
        assert targets.max() < images.declared.num_classes

    def test_images_are_32_pixels_wide_here_and_have_white_places(self, images: Source) -> None:
        batch = images.shared().batch(0, 8)
        assert batch.inputs.shape == (8, 3, 32, 32)
        assert 0.5 < batch.inputs.max() <= 1

    def test_the_first_examples_are_of_several_classes(self, images: Source) -> None:
        is_unlabelled = images.declared.is_out_of_distribution and images.declared.folder is None
        assert len(set(images.shared().batch(0, 8).targets.tolist())) >= (1 if is_unlabelled else 3)
