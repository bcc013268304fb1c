"""Motion blur: every point leaves a fading trail in a per-image direction.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``motion_blur`` of the published code, which calls
ImageMagick's ``MotionBlurImage``: half a Gaussian over 2 * radius + 1 whole pixels along the direction, border values
repeated; the result is rounded to 16 bits and truncated to 8. Constants in pixels. Where it differs: weights have 15
bits (``filters``).
"""

from collections.abc import Sequence
from math import ceil, cos, radians, sin

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import FLOAT32_BITS, ShiftedPlanes, gaussian_weights, rounded_weights
from robench.corruptions.levels import Strengths, strength, truncated_by_imagemagick

# Radius and standard deviation, in pixels.
TRAIL: Strengths[tuple[int, float]] = {
    "imagenet": ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
    "cifar": ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)),
}


def motion_blur(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W), whole, blurred in directions within 45 degrees of the horizontal."""
    numbers = draws.uniform(Stream(purpose="motion_blur"), (1,)).flatten().tolist()
    angles = [-45.0 + 90.0 * number for number in numbers]
    return truncated_by_imagemagick(trailed(levels, angles, *strength(TRAIL, declaration)))


def trailed(levels: torch.Tensor, angles: Sequence[float], radius: int, sigma: float) -> torch.Tensor:
    """Return levels (B, C, H, W), not rounded, with trails of one angle (in degrees) per image.

    Each value becomes the weighted mean of the values from it in the direction (cos, sin) of the angle, rows
    counted downwards.
    """
    weights = trail_weights(radius, sigma).tolist()
    height, width = levels.shape[-2:]
    blurred = torch.empty_like(levels)
    for trail, image, angle in zip(blurred, levels, angles, strict=True):
        steps = trail_steps(angle, len(weights))
        downs, rights = zip(*steps, strict=True)
        margins = -min(rights), max(rights), -min(downs), max(downs)
        padded = torch.nn.functional.pad(image[None], margins, mode="replicate")
        planes = ShiftedPlanes.of(padded, height, width)
        total = planes.zeros()
        for (down, right), weight in zip(steps, weights, strict=True):
            planes.add_to(total, margins[2] + down, margins[0] + right, weight)
        trail.copy_(planes.windows(total))
    return blurred


def trail_weights(radius: int, sigma: float) -> torch.Tensor:
    """Return (2 * radius + 1,) float64 weights of half a Gaussian, which sum to one."""
    half = gaussian_weights(sigma, 2 * radius)[2 * radius :]
    return rounded_weights(half / half.sum(), FLOAT32_BITS)


def trail_steps(angle: float, length: int) -> list[tuple[int, int]]:
    """Return the offsets down and to the right of each value of a trail from the first, in pixels."""
    down, right = sin(radians(angle)), cos(radians(angle))
    return [(ceil(step * down - 0.5), ceil(step * right - 0.5)) for step in range(length)]
