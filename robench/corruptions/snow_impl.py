"""Snow: enlarged and blurred noise over a whitened image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``snow`` of the published code: Gaussian noise, its middle
enlarged, its dark parts removed, rounded down to levels, blurred by ImageMagick's motion blur (truncated again)
in a direction within 45 degrees of straight up, and added twice, once turned by 180 degrees. Constants in pixels;
enlargement does not depend on the size. Where it differs: the blur's weights have 15 bits (``filters``).
"""

from typing import NamedTuple

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength, truncated_by_imagemagick
from robench.corruptions.motion_blur_impl import trailed
from robench.corruptions.zoom_blur_impl import zoomed


class Flakes(NamedTuple):
    """Parameters of snow: noise mean and deviation, enlargement, threshold, trail, and weight of the image."""

    mean: float
    deviation: float
    enlargement: float
    threshold: float
    radius: int
    sigma: float
    kept: float


SNOW: Strengths[Flakes] = {
    "imagenet": (
        Flakes(0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
        Flakes(0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
        Flakes(0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
        Flakes(0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
        Flakes(0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
    ),
    "cifar": (
        Flakes(0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
        Flakes(0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
        Flakes(0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
        Flakes(0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
        Flakes(0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
    ),
}


def snow(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) with flakes falling in a per-image direction."""
    flakes = strength(SNOW, declaration)
    noise = draws.normal(Stream(purpose="snow"), (1, *levels.shape[-2:])).to(levels.device)
    numbers = draws.uniform(Stream(purpose="snow_direction"), (1,)).flatten().tolist()
    layer = snow_layer(noise, [-135.0 + 90.0 * number for number in numbers], flakes)
    return whitened(levels, flakes.kept) + layer + layer.rot90(2, (2, 3))


def snow_layer(noise: torch.Tensor, angles: list[float], flakes: Flakes) -> torch.Tensor:
    """Return whole levels (B, 1, H, W) of the snow in front of the image, from standard normal noise."""
    layer = zoomed(flakes.mean + noise * flakes.deviation, flakes.enlargement)
    bright = torch.where(layer < flakes.threshold, 0.0, layer).clamp(0.0, 1.0)
    return truncated_by_imagemagick(trailed((bright * 255.0).floor(), angles, flakes.radius, flakes.sigma))


def whitened(levels: torch.Tensor, kept: float) -> torch.Tensor:
    """Return levels (B, 3, H, W) mixed with a lighter grey of themselves."""
    red, green, blue = levels.split(1, 1)
    grey = red * 0.299 + green * 0.587 + blue * 0.114
    return torch.maximum(levels, grey * 1.5 + 127.5).mul_(1.0 - kept).add_(levels * kept)
