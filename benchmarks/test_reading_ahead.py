"""What reading ahead saves, by the time of shards with and without the one that follows; and packed images."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from robench.attacks.pgd import Pgd
from robench.core.records import Record
from robench.core.suite import Column, Condition, Suite
from robench.datasets import open_dataset
from robench.datasets.packed_pixels import Packable, find_packed, pack
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints, find_datasets
from robench.evaluation.evaluator import Evaluator
from robench.runs import RunRequest, prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from robench.core.shard import Shard

NUM_IMAGES, NUM_CLASSES, BATCH_SIZE = 500, 10, 50
# As long as decoding an image of this size takes.
NUM_STEPS = 3
HEIGHT, WIDTH = 375, 500


def write_photos(folder: Path) -> Path:
    """Write smooth random JPEG files of the size of ImageNet's into class folders, and a registry of them."""
    generator = np.random.default_rng(0)
    for number in range(NUM_IMAGES):
        coarse = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        path = folder / f"class-{number % NUM_CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC).save(path, quality=90)
    registry = folder / "photos.yaml"
    registry.write_text("datasets:\n  photos: {kind: image-folder, path: ., image_size: 32}\n")
    return registry


def shards_in(folder: Path) -> tuple[Shard, ...]:
    """Return a PGD attack on each batch of the images."""
    pgd = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=NUM_STEPS)
    condition = Condition(name="pgd", dataset=find_datasets([write_photos(folder)])["photos"], perturbation=pgd)
    suite = Suite(
        name="reading",
        version=1,
        seed=0,
        task="classification",
        batch_size=BATCH_SIZE,
        batches_per_shard=1,
        audit=False,
        conditions=(condition,),
        metrics=("top1_accuracy",),
        columns=(Column(key="pgd/top1_accuracy", label="pgd", metric="top1_accuracy", conditions=("pgd",)),),
    )
    request = RunRequest(suites=(suite,), checkpoints=tuple(find_checkpoints(["digits-vit"])), device="cpu")
    return prepare(replace(request, executor="serial")).shards


def seconds(work: Callable[[], object]) -> float:
    """Return the time that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(evaluator: Evaluator, shards: tuple[Shard, ...], *, ahead: bool) -> None:
    """Measure all shards in order, with or without naming the one that follows."""
    for shard, following in pairwise([*shards, None]):
        assert shard is not None
        assert isinstance(evaluator(shard, following if ahead else None), Record)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="decoding beside the model needs a second core")
def test_reading_ahead_hides_the_shorter_of_decoding_and_measuring(tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    shards = shards_in(tmp_path)
    evaluator = Evaluator(decode_workers=1)
    # Loads the model and starts the decoding process.
    measure(evaluator, shards[:1], ahead=False)
    ratios = []
    for _ in range(3):
        without = seconds(lambda: measure(evaluator, shards, ahead=False))
        ratios.append(seconds(lambda: measure(evaluator, shards, ahead=True)) / without)
    benchmark.extra_info["time over that without reading ahead"] = [round(ratio, 3) for ratio in ratios]
    benchmark.pedantic(lambda: measure(evaluator, shards, ahead=True), rounds=1)
    shown = ", ".join(f"{each:.2f}" for each in ratios)
    print(f"\n{without / NUM_IMAGES * 1000:.1f} ms an image one after the other; ahead {shown} of that")
    # Half where both take equally long; another program on one of the cores makes it larger.
    assert min(ratios) < 0.9


def test_packed_images_are_read_much_faster_than_they_are_decoded(tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    declared = find_datasets([write_photos(tmp_path)])["photos"]
    preprocessing = ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, resize=256, crop=224)
    dataset = open_dataset(replace(declared, image_size=None), data_root=None, preprocessing=preprocessing)
    assert isinstance(dataset, Packable)
    decoding = seconds(lambda: dataset.bytes_of(0, NUM_IMAGES))
    pack(dataset, tmp_path)
    dataset.packed = find_packed("photos", dataset.identity.fingerprint, tmp_path, preprocessing)
    assert dataset.packed is not None
    reading = min(seconds(lambda: dataset.bytes_of(0, NUM_IMAGES)) for _ in range(3))
    benchmark.extra_info["packed over decoded images a second"] = round(decoding / reading, 1)
    benchmark.pedantic(lambda: dataset.bytes_of(0, NUM_IMAGES), rounds=1)
    print(f"\n{NUM_IMAGES / decoding:.0f} images a second decoded, {NUM_IMAGES / reading:.0f} packed")
    assert decoding / reading > 3
