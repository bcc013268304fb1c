"""Elastic transform: an affine distortion, followed by a smooth per-pixel one.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``elastic_transform`` of the published code (after Simard et
al. 2003). Constants in pixels, where the authors wrote 244 for 224; three corners of a square of a third of the image's
side move. Severities 1 and 2 of 224 pixels distort far more than 3 to 5: these are the authors' constants. Where it
differs: the affine step interpolates at real positions, where OpenCV 3 rounds them to 1/32 pixel; weights of the
smoothing have 18 bits, its noise 14 (``filters``); places are float32.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import gaussian_filtered, mirrored, mirrored_at_ends, rounded_field
from robench.corruptions.levels import Strengths, strength


class Distortion(NamedTuple):
    """Size and smoothness of the smooth distortion, and maximum move of corners by the affine one, in pixels."""

    alpha: float
    sigma: float
    corner: float


ELASTIC: Strengths[Distortion] = {
    "imagenet": (
        Distortion(244 * 2.0, 244 * 0.7, 244 * 0.1),
        Distortion(244 * 2.0, 244 * 0.08, 244 * 0.2),
        Distortion(244 * 0.05, 244 * 0.01, 244 * 0.02),
        Distortion(244 * 0.07, 244 * 0.01, 244 * 0.02),
        Distortion(244 * 0.12, 244 * 0.01, 244 * 0.02),
    ),
    "cifar": (
        Distortion(0.0, 0.0, 32 * 0.08),
        Distortion(32 * 0.05, 32 * 0.2, 32 * 0.07),
        Distortion(32 * 0.08, 32 * 0.06, 32 * 0.06),
        Distortion(32 * 0.1, 32 * 0.04, 32 * 0.05),
        Distortion(32 * 0.1, 32 * 0.03, 32 * 0.03),
    ),
}


# Source rows and columns (B, 2, H, W) of a step, and the border beyond the image.
Step = tuple[torch.Tensor, Callable[[torch.Tensor, int], torch.Tensor]]


def elastic_transform(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), distorted."""
    for sources, bordered in _steps(levels, declaration, draws):
        levels = interpolated(levels, sources, bordered)
    return levels


def moved_labels(labels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return labels (B, H, W) distorted as their image: by both steps, of the nearest pixel in each."""
    height, width = labels.shape[-2:]
    for sources, bordered in _steps(labels, declaration, draws):
        rows, columns = (sources.float() + 0.5).floor().unbind(1)
        places = bordered(rows, height) * width + bordered(columns, width)
        labels = labels.flatten(1).gather(1, places.flatten(1)).view_as(labels)
    return labels


def _steps(planes: torch.Tensor, declaration: Corruption, draws: Draws) -> Iterator[Step]:
    """Yield the affine and the smooth step for planes (B, ..., H, W)."""
    distortion = strength(ELASTIC, declaration)
    height, width = planes.shape[-2:]
    corners = draws.uniform(Stream(purpose="elastic_transform_corners"), (3, 2)).to(planes.device)
    yield affine_sources(corners * 2.0 - 1.0, distortion.corner, height, width), mirrored_at_ends
    if distortion.alpha:
        noise = draws.uniform(Stream(purpose="elastic_transform"), (2, height, width)).to(planes.device)
        yield smooth_sources(noise * 2.0 - 1.0, distortion), mirrored


def affine_sources(corners: torch.Tensor, reach: float, height: int, width: int) -> torch.Tensor:
    """Return (B, 2, H, W) float64 source rows and columns of an affine map that moves three corners.

    ``corners`` (B, 3, 2) are fractions of ``reach`` in [-1, 1], columns before rows.
    """
    middle_row, middle_column, side = height // 2, width // 2, min(height, width) // 3
    # The authors take rows for columns here, which is the same in a square image.
    low, high = (middle_row - side, middle_column - side), (middle_row + side, middle_column + side)
    before = torch.tensor([high, (high[0], low[1]), low], dtype=torch.float64, device=corners.device)
    after = before + corners.double() * reach
    rows, columns = _grid(height, width, corners.device)
    first, second = after[:, 1] - after[:, 0], after[:, 2] - after[:, 0]
    right, down = (line - after[:, 0, axis, None, None] for axis, line in enumerate((columns, rows)))
    # The matrix that turns the moved triangle's two sides into those before they moved.
    sides, area = before[1:] - before[0], first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    sources = []
    for axis in (1, 0):
        per_column = (second[:, 1] * sides[0, axis] - first[:, 1] * sides[1, axis]) / area
        per_row = (first[:, 0] * sides[1, axis] - second[:, 0] * sides[0, axis]) / area
        sources.append(before[0, axis] + right * per_column[:, None, None] + down * per_row[:, None, None])
    return torch.stack(sources, 1)


def smooth_sources(noise: torch.Tensor, distortion: Distortion) -> torch.Tensor:
    """Return (B, 2, H, W) float64 rows and columns moved by smoothed noise (B, 2, H, W) in [-1, 1]."""
    height, width = noise.shape[-2:]
    sources = gaussian_filtered(rounded_field(noise), distortion.sigma, 3.0, "reflect") * distortion.alpha
    for axis, places in enumerate(_grid(height, width, noise.device)):
        sources[:, axis] += places
    return sources


def interpolated(
    levels: torch.Tensor, sources: torch.Tensor, bordered: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """Return levels (B, C, H, W) read between pixels at ``sources`` (B, 2, H, W), rows and columns, bilinearly."""
    height, width = levels.shape[-2:]
    flat = levels.flatten(2)
    # Float32 holds a place within 2**-16 pixel in an image of up to 256.
    places = sources.float()
    lows = places.floor()
    to_bottom, to_right = (places - lows).flatten(2)[:, :, None].unbind(1)
    row, column = lows.flatten(2).unbind(1)
    tops, bottoms = (bordered(row + i, height) * width for i in (0, 1))
    lefts, rights = (bordered(column + i, width) for i in (0, 1))

    to_left = 1.0 - to_right

    def across(starts: torch.Tensor) -> torch.Tensor:
        left, right = (flat.gather(2, (starts + ends)[:, None].expand_as(flat)) for ends in (lefts, rights))
        return left.mul_(to_left).add_(right.mul_(to_right))

    return across(tops).mul_(1.0 - to_bottom).add_(across(bottoms).mul_(to_bottom)).view_as(levels)


def _grid(height: int, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.arange(height, dtype=torch.float64, device=device)[:, None]
    return rows, torch.arange(width, dtype=torch.float64, device=device)
