"""Glass blur: pixels scattered over their neighbourhood between two Gaussian blurs.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``glass_blur`` of the published code. The apparent swap of
pixels there is a copy, since numpy returns views: from the last pixel to the first, each takes the value that one near
it has by then. The first blur is rounded down to whole levels. Constants in pixels; a rim of ``reach`` pixels is not
scattered. Where it differs: all copies are made at once, by following each pixel's chain of sources to its end.
"""

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.filters import gaussian_filtered
from robench.corruptions.levels import Strengths, strength

# Standard deviation of both blurs, reach of the scattering, and number of repetitions.
GLASS: Strengths[tuple[float, int, int]] = {
    "imagenet": ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "cifar": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
}


def glass_blur(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) as seen through uneven glass."""
    sigma, reach, num_rounds = strength(GLASS, declaration)
    scattered = gaussian_filtered(levels, sigma).floor().float()
    for step in range(num_rounds):
        numbers = draws.uniform(Stream(purpose="glass_blur", step=step), (2, *levels.shape[-2:])).to(levels.device)
        right, down = (numbers * (2 * reach)).floor().sub(reach).unbind(1)
        scattered = copied(scattered, down, right, reach)
    return gaussian_filtered(scattered, sigma)


def copied(levels: torch.Tensor, down: torch.Tensor, right: torch.Tensor, reach: int) -> torch.Tensor:
    """Return levels (B, C, H, W) after each pixel has taken its neighbour's value, from the last pixel to the first.

    ``down`` and ``right`` (B, H, W), whole numbers from -reach to reach - 1, select the neighbour; the rim is
    unchanged.
    """
    height, width = levels.shape[-2:]
    rows = torch.arange(height, device=levels.device)[:, None]
    columns = torch.arange(width, device=levels.device)
    places = rows * width + columns
    moves = (rows > reach) & (rows <= height - reach) & (columns > reach) & (columns <= width - reach)
    sources = (places + torch.where(moves, down * width + right, 0.0).long()).flatten(1)
    ends = _chain_ends(sources, places.flatten())
    return levels.flatten(2).gather(2, ends[:, None].expand(-1, levels.shape[1], -1)).view_as(levels)


def _chain_ends(sources: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the index (B, N) of each place's final value: later places change first, earlier ones afterwards."""
    # Jumps over places that were changed before; where a chain leaves them, it ends one source further.
    jumps = torch.maximum(sources, places)
    while True:
        further = jumps.gather(1, jumps)
        if torch.equal(further, jumps):
            return sources.gather(1, jumps)
        jumps = further
