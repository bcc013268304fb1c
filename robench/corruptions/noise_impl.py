"""Gaussian, shot, impulse and speckle noise.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``gaussian_noise``, ``shot_noise``, ``impulse_noise`` and
``speckle_noise`` of the published code; the constants are its own. Severities share their draws. Where it differs: the
distributions are the same, the random numbers are not; Poisson counts are quantiles of uniform draws of 24 bits.
"""

from functools import lru_cache
from math import ceil, sqrt

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength

# Standard deviation, as a fraction of the range.
GAUSSIAN: Strengths[float] = {"imagenet": (0.08, 0.12, 0.18, 0.26, 0.38), "cifar": (0.04, 0.06, 0.08, 0.09, 0.10)}
# Number of photons of white.
SHOT: Strengths[int] = {"imagenet": (60, 25, 12, 5, 3), "cifar": (500, 250, 100, 75, 50)}
# Proportion of values that turn black or white.
IMPULSE: Strengths[float] = {"imagenet": (0.03, 0.06, 0.09, 0.17, 0.27), "cifar": (0.01, 0.02, 0.03, 0.05, 0.07)}
# Standard deviation, as a fraction of the value.
SPECKLE: Strengths[float] = {"imagenet": (0.15, 0.2, 0.35, 0.45, 0.6), "cifar": (0.06, 0.1, 0.12, 0.16, 0.2)}

# Most counts come from a table of this many equal parts of [0, 1); the others are searched for.
GUIDE_CELLS = 1024


def gaussian_noise(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) with additive noise independent of the level."""
    noise = draws.normal(Stream(purpose="gaussian_noise"), levels.shape[1:]).to(levels.device)
    return noise.mul_(255.0 * strength(GAUSSIAN, declaration)).add_(levels)


def speckle_noise(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) with additive noise proportional to the level."""
    noise = draws.normal(Stream(purpose="speckle_noise"), levels.shape[1:]).to(levels.device)
    return noise.mul_(strength(SPECKLE, declaration)).mul_(levels).add_(levels)


def impulse_noise(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) with a proportion set to black or white with equal probability, per channel."""
    shape = levels.shape[1:]
    is_hit = draws.uniform(Stream(purpose="impulse_noise"), shape).to(levels.device) < strength(IMPULSE, declaration)
    impulses = draws.signs(Stream(purpose="impulse_noise_colour"), shape).to(levels.device)
    return torch.where(is_hit, (impulses + 1.0) * 127.5, levels)


def shot_noise(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) as photon counts: Poisson with the level as its mean."""
    photons = strength(SHOT, declaration)
    numbers = draws.uniform(Stream(purpose="shot_noise"), levels.shape[1:]).to(levels.device)
    return poisson_quantiles(levels, numbers, photons) * (255.0 / photons)


def poisson_quantiles(levels: torch.Tensor, numbers: torch.Tensor, photons: int) -> torch.Tensor:
    """Return the quantiles (float32) of ``numbers`` in [0, 1) of the Poisson distribution of each level."""
    guide, ladder = (table.to(levels.device) for table in _poisson_tables(photons))
    cells = (levels * GUIDE_CELLS + (numbers * GUIDE_CELLS).floor()).flatten()
    counts = guide.index_select(0, cells.long())
    open_places = (counts < 0).nonzero().flatten()
    level, number = (values.flatten()[open_places].double() for values in (levels, numbers))
    rungs = torch.searchsorted(ladder.flatten(), level + number, right=True)
    counts[open_places] = (rungs - level.long() * ladder.shape[1]).float()
    return counts.view_as(levels)


@lru_cache(maxsize=16)
def _poisson_tables(photons: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the count of each level and table cell, -1 where a cell has several, and the cumulative distributions.

    The distributions are (256, counts) float64: level + probability of at most this many photons, which is increasing.
    """
    most = ceil(photons + 8.0 * sqrt(photons) + 12.0)
    levels = torch.arange(256, dtype=torch.float64)[:, None]
    counts = torch.arange(1, most + 2, dtype=torch.float64)
    at_most = torch.special.gammaincc(counts.repeat(256, 1), (levels * (photons / 255.0)).repeat(1, most + 1))
    edges = torch.arange(GUIDE_CELLS + 1, dtype=torch.float64).div(GUIDE_CELLS).repeat(256, 1)
    first = torch.searchsorted(at_most, edges[:, :-1].contiguous(), right=True)
    last = torch.searchsorted(at_most, edges[:, 1:].contiguous())
    return torch.where(first == last, first, -1).float().flatten(), at_most + levels
