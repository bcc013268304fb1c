"""Fog: plasma over the image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``fog`` of the published code: plasma is added and the sum
scaled so that white stays as white as the image's own. Constants do not depend on the size; the plasma's largest cell
is the image's next power of two. Where it differs: float32.
"""

import torch

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength
from robench.corruptions.plasma import plasma

# Amount of plasma, as a fraction of the range, and decay rate of its noise.
FOG: Strengths[tuple[float, float]] = {
    "imagenet": ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
    "cifar": ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
}


def fog(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) behind per-image fog."""
    amount, decay = strength(FOG, declaration)
    veil = plasma(draws, "fog", len(levels), levels.shape, decay).to(levels.device)[:, None]
    white = levels.amax((1, 2, 3), keepdim=True)
    return (levels + veil * (255.0 * amount)) * white / (white + 255.0 * amount)
