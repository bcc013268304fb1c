"""Edges, distances and spread histograms are OpenCV's; drops follow from them."""

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from robench.corruptions import spatter_impl as module
from robench.corruptions.spatter_impl import UNIT, canny, chamfer_distances, equalized, shaded


def blobs(height: int, width: int, seed: int, sigma: float = 2.0, threshold: float = 0.5) -> torch.Tensor:
    """Return (2, H, W) int32 levels of drops, two images that differ."""
    noise = np.random.default_rng(seed).normal(size=(2, height, width))
    smooth = ndimage.gaussian_filter(noise, (0, sigma, sigma)) * sigma * 3
    return torch.from_numpy((np.where(smooth < threshold, 0, 0.6 + smooth * 0.1) * 255).clip(0, 255)).int()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("low", "high"), [(50, 150), (20, 400), (300, 900)])
def test_edges_are_opencvs(seed: int, low: int, high: int) -> None:
    images = blobs(64, 50, seed)
    noisy = torch.randint(0, 256, (2, 64, 50), generator=torch.Generator().manual_seed(seed)).int()
    for levels in (images, noisy):
        for found, image in zip(canny(levels, low, high), levels, strict=True):
            assert np.array_equal(found.numpy() * 255, cv2.Canny(image.numpy().astype(np.uint8), low, high))


def test_weak_edges_count_only_where_they_lead_to_strong_ones() -> None:
    image = torch.zeros(1, 20, 40, dtype=torch.int32)
    image[:, 10:, :] = 30
    alone = canny(image, 50, 150)
    image[:, 10:, 30:] = 90
    joined = canny(image, 50, 150)
    assert not bool(alone.any())
    assert bool(joined[0, 8:12, 2].any())


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.3])
@pytest.mark.parametrize("limit", [5, 20])
def test_distances_are_opencvs_up_to_their_limit(share: float, limit: int) -> None:
    is_edge = torch.rand(3, 60, 75, generator=torch.Generator().manual_seed(int(1 / share))) < share
    for ours, edges in zip(chamfer_distances(is_edge, limit), is_edge, strict=True):
        wanted = cv2.distanceTransform(np.where(edges, 0, 255).astype(np.uint8), cv2.DIST_L2, 5)
        np.testing.assert_allclose(ours.numpy() / UNIT, np.minimum(wanted, limit), atol=2e-4)


@settings(max_examples=40)
@given(seed=st.integers(0, 999), lowest=st.integers(0, 200), span=st.integers(0, 55))
def test_histograms_are_spread_as_opencv_spreads_them(seed: int, lowest: int, span: int) -> None:
    levels = np.random.default_rng(seed).integers(lowest, lowest + span, (2, 15, 20), endpoint=True)
    for ours, image in zip(equalized(torch.from_numpy(levels).int()), levels, strict=True):
        assert np.array_equal(ours.numpy(), cv2.equalizeHist(image.astype(np.uint8)))


@pytest.mark.parametrize("seed", [38, 397])
def test_ties_of_a_spread_histogram_fall_as_opencvs_do(seed: int) -> None:
    """In these two images a level falls half-way between two others, and another rounding moves it."""
    generator = np.random.default_rng(seed)
    lowest = generator.integers(0, 200)
    image = generator.integers(lowest, lowest + generator.integers(0, 56), (15, 20), endpoint=True)
    assert np.array_equal(equalized(torch.from_numpy(image[None]).int())[0], cv2.equalizeHist(image.astype(np.uint8)))


@pytest.mark.parametrize("seed", range(3))
def test_water_is_shaded_as_opencv_shades_it(seed: int) -> None:
    images = blobs(80, 80, seed)
    for ours, image in zip(shaded(images), images.numpy().astype(np.uint8), strict=True):
        distance = cv2.distanceTransform(255 - cv2.Canny(image, 50, 150), cv2.DIST_L2, 5)
        depth = cv2.equalizeHist(cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8))
        relief = cv2.filter2D(depth, cv2.CV_8U, np.array(module.RELIEF))
        water = image * cv2.blur(relief, (3, 3)).astype(np.float64)
        np.testing.assert_allclose(ours, water / water.max(), atol=1e-6)
