"""Opener of ``digits-sketch``, the edges of the test digits.

Analogue of ImageNet-Sketch (Wang et al. 2019, arXiv:1905.13549), computed instead of drawn. The strength of an edge is
the sum of the horizontal and the vertical Sobel derivative, each without its sign, divided by the largest of its image.
Strokes become outlines, light on dark as strokes were; the example and its id are the test digit's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robench.datasets.digits import DIGITS_SKETCH
from robench.datasets.digits_impl import enlarge, split_scans
from robench.datasets.in_memory import InMemoryImages


def sketched_digits() -> InMemoryImages:
    """Return ``digits-sketch``, one sketch per test digit."""
    scans = split_scans("test")
    sketches = sketch(enlarge(np.stack([scan.pixels for scan in scans])))
    return InMemoryImages(
        DIGITS_SKETCH.name,
        {scan.id: scan.target for scan in scans},
        {scan.id: pixels[None] for scan, pixels in zip(scans, sketches, strict=True)},
    )


def sketch(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the edges of images (N, H, W), in [0, 1], of the same shape; an image without edges is black.

    Pixels beyond the border are taken to be those on it. Enlarged digits are whole numbers of 1024ths, so that all
    sums are exact.
    """
    padded = np.pad(images.astype(np.float64), ((0, 0), (1, 1), (1, 1)), mode="edge")
    smoothed_down = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    smoothed_across = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    across = smoothed_down[:, :, 2:] - smoothed_down[:, :, :-2]
    down = smoothed_across[:, 2:] - smoothed_across[:, :-2]
    strength = np.abs(across) + np.abs(down)
    strongest = strength.max(axis=(1, 2), keepdims=True)
    return (strength / np.where(strongest > 0, strongest, 1)).astype(np.float32)
