"""What corruptions cost beside imagecorruptions-imaug's: 64 images of 224 pixels, 19 types, 5 severities, in one run.

Both compute with one thread, as a worker does (two cores are two workers), and are timed in seconds of the processor,
so that other work on the machine slows neither.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import cv2
import imagecorruptions
import numpy as np
import torch
from sklearn.datasets import load_sample_images

from robench.core.protocols import Batch
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.corruptions.corruption import Corruption
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

NUM_IMAGES = 64
SIZE = 224
TYPES = COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS
SEVERITIES = range(1, 6)
SMALLEST_GAIN = 3.0


def crops() -> np.ndarray[Any, Any]:
    """Return (64, 224, 224, 3) uint8: 32 places in each of the two photographs that scikit-learn ships."""
    places = [(top, left) for top in range(0, 200, 50) for left in range(0, 400, 50)]
    photographs = load_sample_images().images
    cut = [image[top : top + SIZE, left : left + SIZE] for image in photographs for top, left in places]
    return np.ascontiguousarray(np.stack(cut))


def seconds(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def test_corruptions_are_faster_than_imagecorruptions_over_their_sum(benchmark: BenchmarkFixture) -> None:
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    images = crops()
    assert images.shape == (NUM_IMAGES, SIZE, SIZE, 3)
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255
    batch = Batch(ids=tuple(map(str, range(NUM_IMAGES))), inputs=inputs, targets=torch.zeros(NUM_IMAGES))
    victim: Any = None

    def own(kind: Any, severity: int) -> object:
        return perturb(Corruption(type=kind, severity=severity), batch, victim, ExampleDraws(range(NUM_IMAGES)))

    def theirs(kind: str, severity: int) -> object:
        return [imagecorruptions.corrupt(image, severity, kind) for image in images]

    imagecorruptions.corrupt(images[0], 1, "glass_blur")  # compiles
    print(f"\n{'images/s':20} {'robench':>9} {'imagecorruptions-imaug':>23} {'ratio':>7}")
    total_own = total_theirs = 0.0
    for kind in TYPES:
        of_theirs = sum(seconds(lambda s=severity, k=kind: theirs(k, s)) for severity in SEVERITIES)
        of_own = sum(seconds(lambda s=severity, k=kind: own(k, s)) for severity in SEVERITIES)
        total_own, total_theirs = total_own + of_own, total_theirs + of_theirs
        tell(kind, of_own, of_theirs, len(SEVERITIES) * NUM_IMAGES)
    tell("all 19", total_own, total_theirs, len(SEVERITIES) * NUM_IMAGES * len(TYPES))
    benchmark.extra_info["gain"] = round(total_theirs / total_own, 2)
    benchmark.pedantic(lambda: own("gaussian_blur", 1), rounds=1)
    assert total_theirs / total_own >= SMALLEST_GAIN


def tell(name: str, own: float, theirs: float, num_images: int) -> None:
    ratio = theirs / own
    slower = "  slower" if ratio < 1 else ""
    print(f"{name:20} {num_images / own:9.0f} {num_images / theirs:23.0f} {ratio:7.2f}{slower}")
