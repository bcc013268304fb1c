"""Frost: an icy pane in front of the image.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, ``frost`` of the published code; the constants are its own.
Where it differs: the original crops five photographs of frozen panes, which are not copied here. Each image has its own
pane: needles of ice in random directions, in two sizes, over plasma, with the mean and standard deviation per channel
of one of those photographs. For 32 pixels the original shrinks its photographs fivefold; here needles are shorter
instead. Other lengths are constants in pixels.
"""

import torch

from robench.core.protocols import Draws
from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength
from robench.corruptions.motion_blur_impl import trail_steps, trail_weights
from robench.corruptions.plasma import plasma
from robench.corruptions.zoom_blur_impl import zoomed

# Fraction of the image, and fraction of the pane that is added.
FROST: Strengths[tuple[float, float]] = {
    "imagenet": ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "cifar": ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
}
# Mean and standard deviation of red, green and blue, in levels, of the published code's frost1 to frost5.
PANES = (
    ((78.0, 149.0, 166.0), (27.0, 16.0, 15.0)),
    ((201.0, 205.0, 214.0), (21.0, 22.0, 23.0)),
    ((201.0, 205.0, 214.0), (21.0, 22.0, 23.0)),
    ((138.0, 153.0, 165.0), (28.0, 28.0, 30.0)),
    ((112.0, 123.0, 135.0), (44.0, 43.0, 42.0)),
)
# Number of directions of needles of each size; density of starting points; half their length in pixels.
NUM_DIRECTIONS = 3
DENSITY = 0.008
RADIUS = {"imagenet": 12, "cifar": 4}
BROAD = 2.5
GROUND_DECAY = 1.2


def frost(levels: torch.Tensor, declaration: Corruption, draws: Draws) -> torch.Tensor:
    """Return levels (B, 3, H, W) behind per-image panes."""
    kept, added = strength(FROST, declaration)
    relief = pane_relief(draws, levels.shape, RADIUS[declaration.constants]).to(levels.device)
    chosen = (draws.uniform(Stream(purpose="frost_pane"), (1,)) * len(PANES)).flatten().long().tolist()
    means, deviations = torch.tensor([PANES[pane] for pane in chosen], device=levels.device)[..., None, None].unbind(1)
    return levels * kept + (means + relief * deviations).clamp(0.0, 255.0) * added


def pane_relief(draws: Draws, shape: torch.Size, radius: int) -> torch.Tensor:
    """Return (B, 1, H, W) float32 of mean 0 and standard deviation 1 for images of ``shape`` (B, C, H, W)."""
    height, width = shape[-2:]
    ground = plasma(draws, "frost_ground", shape[0], shape, GROUND_DECAY)[:, None]
    directions = draws.uniform(Stream(purpose="frost_directions"), (2 * NUM_DIRECTIONS,)) * 360.0
    begins = draws.uniform(Stream(purpose="frost"), (height, width)) / DENSITY
    fine, broad = needles(begins, directions.tolist(), radius).split(NUM_DIRECTIONS, 1)
    ice = torch.maximum(fine.amax(1, keepdim=True), zoomed(broad.amax(1, keepdim=True), BROAD))
    return standardised(standardised(ice) + standardised(ground * 255.0))


def needles(begins: torch.Tensor, directions: list[list[float]], radius: int) -> torch.Tensor:
    """Return (B, N, H, W) motion-blurred points of N directions per image, in degrees.

    A point of direction i is where ``begins`` (B, H, W) lies between i and i + 1, and the further the brighter.
    """
    num_directions, (num_images, height, width) = len(directions[0]), begins.shape
    weights = trail_weights(radius, radius / 2.0).to(begins.device, torch.float32)
    image, row, column = (begins < num_directions).nonzero().unbind(1)
    found = begins[image, row, column]
    direction = found.floor()
    bright = ((found - direction) * 255.0).floor()
    # With a margin as wide as a trail is long, which is cut off in the end.
    margin = 2 * radius
    tall, wide = height + 2 * margin, width + 2 * margin
    steps = [
        [[down * wide + right for down, right in trail_steps(angle, len(weights))] for angle in angles]
        for angles in directions
    ]
    plane = image * num_directions + direction.long()
    first = (plane * tall + row + margin) * wide + column + margin
    # Each point is seen from where it lies a step of its trail away.
    places = first[:, None] - torch.tensor(steps, device=begins.device).flatten(0, 1)[plane]
    planes = torch.zeros(num_images, num_directions, tall, wide, device=begins.device)
    planes.view(-1).index_add_(0, places.flatten(), (bright[:, None] * weights).flatten())
    return planes[..., margin : margin + height, margin : margin + width]


def standardised(relief: torch.Tensor) -> torch.Tensor:
    """Return planes (B, 1, H, W) in levels with mean 0 and standard deviation 1, or 0 if flat."""
    # Rounded so that float64 holds the sums, and those of squares, exactly.
    exact = (relief.double() * 2.0**8).round() / 2.0**8
    count = relief[0].numel()
    mean = exact.sum((1, 2, 3), keepdim=True) / count
    variance = exact.square().sum((1, 2, 3), keepdim=True) / count - mean.square()
    return ((exact - mean) / variance.clamp(min=2.0**-16).sqrt()).float()
