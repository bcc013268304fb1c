"""Coverage of mean IoU's interval in a simulation of 200 images, and torchmetrics beside robench's numbers.

Images are drawn from a population of 20,000 whose mean IoU is known; rare classes are in few of them.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robench.metrics.intervals import percentile_interval, weighted_sums
from robench.metrics.segmentation import _mean_iou

NUM_CLASSES, POPULATION, NUM_IMAGES, REPEATS = 20, 20_000, 200, 400


def population(rng: np.random.Generator) -> np.ndarray:
    """Return counts (N, K, 3): a few classes an image, the k-th in a proportion 1 / (k + 1) of them."""
    present = rng.random((POPULATION, NUM_CLASSES)) < 1 / np.arange(1, NUM_CLASSES + 1)
    true = present * rng.integers(50, 2000, present.shape)
    quality = np.clip(rng.normal(0.6, 0.25, present.shape), 0, 1)
    both = np.rint(true * quality).astype(np.int64)
    # What is lost goes to a class of the image, or to any.
    lost = (true - both).sum(1)
    other = rng.integers(0, NUM_CLASSES, POPULATION)
    predicted = both.copy()
    predicted[np.arange(POPULATION), other] += lost
    return np.stack([true, predicted, both], -1)


@pytest.mark.parametrize(("num_images", "least"), [(100, 0.84), (200, 0.9), (400, 0.92)])
def test_the_interval_covers_the_population(num_images: int, least: float) -> None:
    rng = np.random.default_rng(0)
    counts = population(rng)
    wanted = float(_mean_iou(counts.sum(0)[None].astype(float))[0])
    hits, biases, errors = 0, [], []
    for repeat in range(REPEATS):
        drawn = counts[rng.choice(POPULATION, num_images, replace=False)]
        ids = np.array([f"{repeat}-{place}" for place in range(num_images)])
        found = _mean_iou(weighted_sums(ids, drawn))
        value = float(_mean_iou(drawn.sum(0)[None].astype(float))[0])
        low, high = percentile_interval(found)
        hits += low <= wanted <= high
        biases.append(float(found.mean()) - value)
        errors.append(value - wanted)
    coverage = hits / REPEATS
    assert abs(np.mean(errors)) < 0.02
    assert least <= coverage <= 0.98
    assert abs(np.mean(biases)) < 0.02


def test_torchmetrics_gives_the_same_mean_iou(tmp_path: Path) -> None:
    """MulticlassJaccardIndex(average="macro") leaves out classes without true and predicted pixels, as robench does."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*pip, "torchmetrics", "lightning-utilities"], check=True)
    sys.path.insert(0, str(tmp_path))
    try:
        import torch
        from torchmetrics.classification import (  # type: ignore[import-not-found]  # installed above
            MulticlassJaccardIndex,
        )
    finally:
        sys.path.remove(str(tmp_path))
    from robench.tasks.segmentation_impl import confusion

    generator = torch.Generator().manual_seed(0)
    for case in range(200):
        num_classes = 2 + case % 5
        side = 1 if case % 20 == 0 else 6
        outputs = torch.randn(2, num_classes, side, side, generator=generator)
        targets = torch.randint(-1, 1 + case % num_classes, (2, side, side), generator=generator)
        if case % 17 == 0:
            targets[0] = -1
        theirs = MulticlassJaccardIndex(num_classes, average="macro", ignore_index=-1)
        # Where all pixels are ignored there is no mean, and torchmetrics gives 0.
        wanted = float(theirs(outputs.argmax(1), targets)) if bool((targets >= 0).any()) else np.nan
        counts = confusion(outputs, targets).sum(0).T[None].double().numpy()
        assert float(_mean_iou(counts)[0]) == pytest.approx(wanted, abs=1e-6, nan_ok=True), case
