"""Gaussian blur of scikit-image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``gaussian_blur`` of the published code, which is
scikit-image's ``gaussian``: cut at four standard deviations, border values repeated. Constants in pixels. Where it
differs: weights have 18 bits (``filters``).
"""

import torch

from robench.core.protocols import Draws
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import gaussian_filtered
from robench.corruptions.levels import Strengths, strength

SIGMA: Strengths[float] = {"imagenet": (1.0, 2.0, 3.0, 4.0, 6.0), "cifar": (0.4, 0.6, 0.7, 0.8, 1.0)}


def gaussian_blur(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) blurred by a Gaussian."""
    return gaussian_filtered(levels, strength(SIGMA, declaration))
