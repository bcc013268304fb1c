"""Filters are those that scipy and Pillow define, and their sums are exact in any order."""

import math

import cv2
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from robench.corruptions.defocus_blur_impl import DISK, disk
from robench.corruptions.filters import (
    FLOAT64_BITS,
    LineFilter,
    ShiftedPlanes,
    gaussian_filter,
    gaussian_filtered,
    gaussian_weights,
    mirrored,
    mirrored_at_ends,
    rounded_field,
    rounded_weights,
)
from robench.corruptions.pixelate_impl import box_resized

SIGMAS = (0.25, 0.7, 1.0, 2.5, 6.0)


def levels(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed)).float()


@settings(max_examples=60)
@given(values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50), bits=st.integers(4, 18))
def test_rounded_weights_are_short_fractions_whose_running_sums_are_right(values: list[float], bits: int) -> None:
    weights = torch.tensor(values, dtype=torch.float64)
    rounded = rounded_weights(weights, bits)
    assert torch.equal((rounded * 2.0**bits).round(), rounded * 2.0**bits)
    assert float((rounded.cumsum(0) - weights.cumsum(0)).abs().max()) <= 0.5 / 2**bits + 1e-12


@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussian_weights_add_to_one_and_fall_as_a_gaussian_does(sigma: float) -> None:
    weights = gaussian_weights(sigma, 5)
    assert float(weights.sum()) == pytest.approx(1.0)
    assert torch.equal(weights, weights.flip(0))
    assert float(weights[6] / weights[5]) == pytest.approx(math.exp(-0.5 / sigma**2))


def test_fields_are_rounded_to_where_two_filters_are_exact() -> None:
    field = torch.randn(1000, generator=torch.Generator().manual_seed(0)).clamp(-4, 4)
    rounded = rounded_field(field)
    assert rounded.dtype == torch.float64
    assert torch.equal(rounded * 2**14, (rounded * 2**14).round())
    assert float((rounded - field).abs().max()) <= 2.0**-15


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_mirrors_are_those_of_numpys_padding(size: int) -> None:
    places, line = torch.arange(-20, size + 20), np.arange(size)
    assert mirrored(places, size).tolist() == np.pad(line, 20, mode="symmetric").tolist()
    assert mirrored_at_ends(places, size).tolist() == np.pad(line, 20, mode="reflect").tolist()


@pytest.mark.parametrize("border", ["nearest", "reflect"])
@pytest.mark.parametrize("truncate", [3.0, 4.0])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussian_filters_are_scipys(sigma: float, truncate: float, border: str) -> None:
    planes = levels(2, 3, 21, 34).double()
    wanted = ndimage.gaussian_filter(planes.numpy(), (0, 0, sigma, sigma), mode=border, truncate=truncate)
    np.testing.assert_allclose(gaussian_filtered(planes, sigma, truncate, border).numpy(), wanted, atol=0.02)


def test_sums_of_two_line_filters_are_exact_in_any_order() -> None:
    planes, size = levels(1, 70, 70).double(), 70
    weights = gaussian_filter(size, 3.0)
    matrix = weights.along_columns(torch.eye(size, dtype=torch.float64))
    order = torch.randperm(size, generator=torch.Generator().manual_seed(1))
    shuffled = matrix[:, order] @ planes[:, order][:, :, order] @ matrix[:, order].mT
    assert torch.equal(shuffled, weights.along_columns(weights.along_rows(planes)))
    assert torch.equal(matrix * 2**FLOAT64_BITS, (matrix * 2**FLOAT64_BITS).round())


@settings(max_examples=30)
@given(size=st.integers(1, 90), resized=st.integers(1, 90), seed=st.integers(0, 99))
def test_blocks_multiply_as_the_whole_matrix_does(size: int, resized: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    near = (torch.arange(resized)[:, None] * size / resized - torch.arange(size)).abs() < 5
    matrix = torch.randint(1, 9, (resized, size), generator=generator).double() * near
    lines = LineFilter.of(matrix)
    planes = levels(2, size, size, seed=seed).double()
    assert torch.equal(lines.along_rows(planes), planes @ matrix.mT)
    assert torch.equal(lines.along_columns(planes), matrix @ planes)


def test_shifted_planes_add_windows_of_a_margin() -> None:
    padded, height, width = levels(2, 3, 11, 13), 7, 8
    planes = ShiftedPlanes.of(padded, height, width)
    total = planes.zeros()
    planes.add_to(total, 0, 0, 0.5)
    planes.add_to(total, 4, 5, 0.25)
    wanted = 0.5 * padded[..., :7, :8] + 0.25 * padded[..., 4:, 5:]
    assert torch.equal(planes.windows(total).view(2, 3, height, width), wanted)
    assert torch.equal(planes.rows(3).view(2, 3, height, 13), padded[..., 3:10, :])


@pytest.mark.parametrize(("radius", "rim"), [*DISK["imagenet"], *DISK["cifar"]])
def test_disks_are_opencvs_smoothing_of_whole_pixels(radius: float, rim: float) -> None:
    reach, size = (8, 3) if radius <= 8 else (int(radius), 5)
    places = np.arange(-reach, reach + 1)
    hard = np.array(places[:, None] ** 2 + places**2 <= radius**2, dtype=np.float32)
    wanted = cv2.GaussianBlur(hard / hard.sum(), (size, size), rim)
    np.testing.assert_allclose(disk(radius, rim).numpy(), wanted, atol=1e-6)


@settings(max_examples=40)
@given(height=st.integers(4, 40), width=st.integers(4, 40), share=st.floats(0.2, 0.99))
def test_boxes_are_pillows_to_the_byte(height: int, width: int, share: float) -> None:
    assume(height <= 2 * width)
    down, right = max(1, int(height * share)), max(1, int(width * share))
    image = Image.fromarray(levels(height, width, seed=height * 41 + width).byte().numpy())
    small = image.resize((right, down), Image.Resampling.BOX)
    ours = box_resized(image, right, down)
    assert ours == small
    assert box_resized(ours, width, height) == small.resize((width, height), Image.Resampling.BOX)
