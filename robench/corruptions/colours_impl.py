"""Brightness, saturation and contrast.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``brightness``, ``saturate`` and ``contrast`` of the published
code; the constants are its own. Where it differs: the way to hue, saturation and value and back is taken in one step
without the hue, which is the same function and 20 times as fast. As there, grey has the hue of red, so that the
saturation that severities 4 and 5 add turns grey pixels red.
"""

import torch

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength

# Constant added to the value, as a fraction of the range.
BRIGHTNESS: Strengths[float] = {"imagenet": (0.1, 0.2, 0.3, 0.4, 0.5), "cifar": (0.05, 0.1, 0.15, 0.2, 0.3)}
# Fraction of the distance to the mean that remains.
CONTRAST: Strengths[float] = {"imagenet": (0.4, 0.3, 0.2, 0.1, 0.05), "cifar": (0.75, 0.5, 0.4, 0.3, 0.15)}
# Factor of the saturation, and constant added to it.
SATURATION: Strengths[tuple[float, float]] = {
    "imagenet": ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)),
    "cifar": ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)),
}


def brightness(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) with a constant added to the largest channel and the others in proportion."""
    value = levels.amax(1, keepdim=True)
    raised = (value + 255.0 * strength(BRIGHTNESS, declaration)).clamp(max=255.0)
    return torch.where(value > 0, levels * raised / value, raised)


def saturate(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) of the same hue and value, and of another saturation."""
    factor, added = strength(SATURATION, declaration)
    value = levels.amax(1, keepdim=True)
    chroma = value - levels.amin(1, keepdim=True)
    saturation = (chroma / value.clamp(min=1.0) * factor + added).clamp(0.0, 1.0)
    red = torch.tensor([0.0, 1.0, 1.0], device=levels.device).view(1, 3, 1, 1)
    below_value = torch.where(chroma > 0, (value - levels) / chroma, red)
    return value - value * saturation * below_value


def contrast(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) moved towards the mean of their channel."""
    kept = strength(CONTRAST, declaration)
    # A double holds the sum of whole levels exactly, in any order.
    mean = (levels.double().sum((2, 3), keepdim=True) / levels[0, 0].numel()).float()
    return (levels - mean) * kept + mean
