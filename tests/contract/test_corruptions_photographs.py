"""At 224 pixels corruptions are those of imagecorruptions-imaug, on ten photographs, with the same random numbers.

That library differs from ImageNet-C's own code in frost (photographs of panes, rescaled), in the elastic transform (no
affine step, other constants) and in snow (its layer is rounded to nearest after the blur alone, where the original
truncates before and after): there the slow references stand in. Noise is compared by its distribution too.
"""

import math
from functools import lru_cache
from typing import Any

import imagecorruptions
import numpy as np
import pytest
import torch
from corruption_references import (
    ELASTIC_224,
    FROST_224,
    SNOW_224,
    Array,
    Numbers,
    as_saved,
    channels_last,
    elastic_transform,
    frost,
    photographs,
    poisson_counts,
    psnr,
    scattered,
    snow,
)
from imagecorruptions import corruptions as library
from PIL import Image
from scipy import stats

from robench.core.protocols import Batch
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.corruptions.corruption import Corruption
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.testing.corruption import corrupted

SIZE = 224
SMALLEST_RATIO = 50.0
UNLIKE_THE_LIBRARY = ("frost", "elastic_transform", "snow")
LIKE_THE_LIBRARY = [kind for kind in COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS if kind not in UNLIKE_THE_LIBRARY]
NOISES = ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise")


@lru_cache(maxsize=8)
def ours(kind: Any, severity: int, rows: tuple[int, ...]) -> Array:
    """Return (len(rows), 224, 224, 3) levels of those photographs, each with the draws of its number."""
    images = torch.from_numpy(photographs(SIZE)[list(rows)]).permute(0, 3, 1, 2).float() / 255
    batch = Batch(ids=tuple(map(str, rows)), inputs=images, targets=torch.zeros(len(rows)))
    victim: Any = None
    result = perturb(Corruption(type=kind, severity=severity), batch, victim, ExampleDraws(rows)).inputs
    return (result * 255).round().permute(0, 2, 3, 1).numpy()


class Fed:
    """What the library takes for numpy's random numbers: an example's draws, in the order in which it asks."""

    def __init__(self, kind: str, numbers: Numbers) -> None:
        self.kind, self.numbers, self.asked = kind, numbers, 0

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: tuple[int, ...] = ()) -> Array:
        if len(size) == 3:
            return loc + scale * channels_last(self.numbers.normal(self.kind, (3, *size[:2])))
        return loc + scale * self.numbers.normal(self.kind, size)

    def poisson(self, lam: Array) -> Array:
        return poisson_counts(lam, channels_last(self.numbers.uniform(self.kind, (3, *lam.shape[:2]))))

    def uniform(self, low: float, high: float, size: tuple[int, ...] = (1,)) -> Array:
        if self.kind == "fog":
            # One map of each size after the other: of the middles, of the tops and of the sides.
            shares = self.numbers.uniform("fog", (256 * 256 - 1,))
            start, self.asked = self.asked, self.asked + math.prod(size)
            return low + (high - low) * shares[start : self.asked].reshape(size)
        return low + (high - low) * self.numbers.uniform(self.kind, (1,))[0]

    def random(self, size: tuple[int, ...]) -> Array:
        """Salt and pepper: first what is hit, then which of it is white, at most a half."""
        self.asked += 1
        if self.asked == 1:
            return channels_last(self.numbers.uniform("impulse_noise", (3, *size[:2])))
        return (1 - channels_last(self.numbers.signs("impulse_noise_colour", (3, *size[:2])))) / 2

    def shuffle(self, height: int, width: int, pixels: Array, c: tuple[float, int, int], seed: int) -> Array:
        return scattered(pixels, c[1], c[2], self.numbers)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One severity; ``tests/slow`` has the others."""
    metafunc.parametrize("severity", [3])


def theirs(kind: str, severity: int, number: int) -> Array:
    fed = Fed(kind, Numbers(number))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("normal", "poisson", "uniform"):
            patched.setattr(f"numpy.random.{name}", getattr(fed, name))
        if kind == "impulse_noise":
            patched.setattr("numpy.random.default_rng", lambda seed=None: fed)
        patched.setattr(library, "_shuffle_pixels_njit_glass_blur", fed.shuffle)
        return imagecorruptions.corrupt(photographs(SIZE)[number], severity, kind)


@pytest.mark.parametrize("kind", LIKE_THE_LIBRARY)
def test_it_is_the_librarys_with_the_same_random_numbers(kind: str, severity: int) -> None:
    # Scattering one pixel after the other is slow: there each severity has two photographs of its own.
    rows = (2 * severity - 2, 2 * severity - 1) if kind == "glass_blur" else tuple(range(10))
    ratios = [
        psnr(image, theirs(kind, severity, row)) for row, image in zip(rows, ours(kind, severity, rows), strict=True)
    ]
    assert np.mean(ratios) > SMALLEST_RATIO
    assert min(ratios) > 40


def resized(row: int, height: int, width: int) -> Array:
    return np.asarray(Image.fromarray(photographs(SIZE)[row]).resize((width, height)))


def made(kind: Any, severity: int, image: Array) -> Array:
    levels = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float() / 255
    return (corrupted(Corruption(type=kind, severity=severity), levels)[0] * 255).round().permute(1, 2, 0).numpy()


@pytest.mark.parametrize("kind", ["defocus_blur", "zoom_blur", "brightness", "contrast", "jpeg_compression"])
def test_at_other_sizes_it_is_the_librarys_to_one_level(kind: str, severity: int) -> None:
    image = resized(0, 75, 100)
    assert (
        np.abs(made(kind, severity, image) - imagecorruptions.corrupt(image, severity, kind).astype(float)).max() <= 1
    )


@pytest.mark.parametrize(("size", "at_3"), [((375, 500), (0.02, 0.2)), ((224, 224), (0, 0)), ((512, 683), (0, 0))])
def test_pixelate_enlarges_by_boxes_and_the_library_by_nearest_neighbour(
    size: tuple[int, int], at_3: tuple[float, float], severity: int
) -> None:
    image = resized(0, *size)
    scale = (0.6, 0.5, 0.4, 0.3, 0.25)[severity - 1]
    small = Image.fromarray(image).resize((int(size[1] * scale), int(size[0] * scale)), Image.Resampling.BOX)
    found = made("pixelate", severity, image)
    assert np.array_equal(found, np.asarray(small.resize(image.shape[1::-1], Image.Resampling.BOX)))
    differs = (found != imagecorruptions.corrupt(image, severity, "pixelate")).mean()
    assert (at_3[0] if severity == 3 else 0) <= differs <= max(at_3[1], 0 if severity == 3 else 0.03)


def test_the_elastic_transform_is_the_authors(severity: int) -> None:
    for number, image in enumerate(ours("elastic_transform", severity, tuple(range(10)))):
        clean = photographs(SIZE)[number].astype(np.float64)
        wanted = as_saved(elastic_transform(clean, ELASTIC_224[severity - 1], Numbers(number)))
        assert psnr(image, wanted) > SMALLEST_RATIO


def test_snow_is_the_authors(severity: int) -> None:
    rows = (2 * severity - 2, 2 * severity - 1)
    for number, image in zip(rows, ours("snow", severity, rows), strict=True):
        wanted = as_saved(snow(photographs(SIZE)[number].astype(np.float64), SNOW_224[severity - 1], Numbers(number)))
        assert psnr(image, wanted) > SMALLEST_RATIO


def test_frost_is_a_pane_of_its_own_mixed_as_the_authors_do(severity: int) -> None:
    rows = (2 * severity - 2, 2 * severity - 1)
    for number, image in zip(rows, ours("frost", severity, rows), strict=True):
        clean = photographs(SIZE)[number].astype(np.float64)
        wanted = as_saved(frost(clean, FROST_224[severity - 1], Numbers(number)))
        assert psnr(image, wanted) > SMALLEST_RATIO


def test_frost_is_as_strong_as_the_librarys_photographs_of_panes(severity: int) -> None:
    np.random.seed(severity)
    clean = photographs(SIZE).astype(np.float64)
    own = np.abs(ours("frost", severity, tuple(range(10))) - clean).mean()
    library_own = [imagecorruptions.corrupt(image, severity, "frost") for image in photographs(SIZE)]
    assert 0.7 < own / np.abs(np.array(library_own) - clean).mean() < 1.6


@pytest.mark.parametrize("kind", NOISES)
def test_noise_is_distributed_as_the_librarys(kind: str, severity: int) -> None:
    np.random.seed(severity)
    clean = photographs(SIZE)[0].astype(np.float64)
    arguments = {"seed": severity} if kind == "impulse_noise" else {}
    library_own = imagecorruptions.corrupt(photographs(SIZE)[0], severity, kind, **arguments) - clean
    own = ours(kind, severity, (0,))[0] - clean
    assert stats.ks_2samp(own.ravel(), library_own.ravel()).pvalue > 0.01
    standard_error = own.std() * (2 / own.size) ** 0.5
    assert own.mean() == pytest.approx(library_own.mean(), abs=4 * standard_error)
    assert own.std() == pytest.approx(library_own.std(), rel=0.02)
