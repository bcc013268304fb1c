"""Zoom blur: the mean of an image and its enlargements.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``zoom_blur`` and ``clipped_zoom`` of the published code: the
middle of the image, enlarged by linear interpolation as scipy's ``zoom`` defines it and trimmed to its size; the first
enlargement is by 1. Factors do not depend on the image's size. Where it differs: the last row and column of an
enlargement, which scipy at times takes for the outside and makes black, are always interpolated.
"""

from functools import lru_cache
from math import ceil

import torch

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength

Line = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

# End of the factors, and the step between them; they start at 1.
FACTORS: Strengths[tuple[float, float]] = {
    "imagenet": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "cifar": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
}


def zoom_blur(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), the mean of the image and of all its enlargements."""
    factors = zoom_factors(*strength(FACTORS, declaration))
    # The image, and its first enlargement, which is the image again; rows and columns are exchanged until the end.
    total = levels.mT.contiguous() * 2.0
    for factor in factors[1:]:
        total += _columns_first(levels, factor)
    return total.mT / (len(factors) + 1)


def moved_labels(labels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return labels (B, H, W) of most of the averaged images, which have no single displacement.

    Each enlargement has the labels of the nearest pixels, and the image itself counts twice, as in the mean: the label
    is the one with the largest weight in a pixel's grey levels. Of equally frequent ones that of the smallest
    enlargement is taken.
    """
    factors = zoom_factors(*strength(FACTORS, declaration))
    layers = [labels, *(_nearest(labels, factor) for factor in factors[1:])]
    best = torch.zeros_like(labels)
    result = labels.clone()
    for layer in layers:
        # The image itself, as such and as its first enlargement.
        count = (layer == labels).to(labels.dtype)
        for other in layers:
            count += layer == other
        result = torch.where(count > best, layer, result)
        best = torch.maximum(count, best)
    return result


def zoom_factors(stop: float, step: float) -> list[float]:
    """Return 1, 1 + step and so on, as numpy's ``arange`` rounds them: at times it reaches ``stop``."""
    difference = (1.0 + step) - 1.0
    return [1.0 + i * difference for i in range(ceil((stop - 1.0) / step))]


def zoomed(planes: torch.Tensor, factor: float) -> torch.Tensor:
    """Return float32 planes (..., H, W) with their middle enlarged to the full size, per axis."""
    return _columns_first(planes, factor).mT


def _columns_first(planes: torch.Tensor, factor: float) -> torch.Tensor:
    """Return enlarged planes transposed, (..., W, H), since lines of rows are read fastest."""
    return _interpolated(_interpolated(planes, factor).mT.contiguous(), factor)


def _interpolated(planes: torch.Tensor, factor: float) -> torch.Tensor:
    low, high, weight = (each.to(planes.device) for each in _enlarged_line(planes.shape[-2], factor))
    return planes.index_select(-2, low).mul_(1.0 - weight).add_(planes.index_select(-2, high).mul_(weight))


def _nearest(labels: torch.Tensor, factor: float) -> torch.Tensor:
    """Return labels (B, H, W) with their middle enlarged, each of the nearest pixel."""
    for axis in (-2, -1):
        low, high, weight = _enlarged_line(labels.shape[axis], factor)
        labels = labels.index_select(axis, torch.where(weight[:, 0] > 0.5, high, low).to(labels.device))
    return labels


@lru_cache(maxsize=256)
def _enlarged_line(size: int, factor: float) -> Line:
    """Return the two sources (size,) of each place on an enlarged line, and the weight (size, 1) of the second."""
    kept = ceil(size / factor)
    enlarged = round(kept * factor)
    places = torch.arange(size, dtype=torch.float64) + (enlarged - size) // 2
    sources = (places * ((kept - 1) / max(1, enlarged - 1))).clamp(max=kept - 1)
    low = sources.floor()
    first = (size - kept) // 2
    high = (low + 1).clamp(max=kept - 1)
    return (low.long() + first), (high.long() + first), (sources - low).float()[:, None]
