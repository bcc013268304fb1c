"""Common steps of all 19 corruptions: images in, corrupted images out.

The original reads 8-bit images, and truncates what it computed to 8 bits (``np.uint8``) before it saves. So here:
inputs are rounded to the nearest of 255 levels, and results are cut to [0, 255] and rounded down. Where it differs: a
value within 2**-10 of a level counts as that level, since the original's double precision decides there by chance.
Corruptions whose last step in the original rounds to nearest (pixelate, JPEG) return whole levels.

Types that mix colours, and the compression of ``saved_as``, see a grey image as three equal channels, and its grey
levels afterwards are Pillow's: as if a grey file had been corrupted as a colour image and converted back.

Severities follow the authors' numbering, and most change an image more than the previous one, with exceptions: glass
blur after 1 and 3, frost after 3, elastic transform and saturate after 2 (224 pixels); glass blur after 1, 2 and 4,
motion blur, frost and spatter after 3, saturate after 2, elastic transform after each (32 pixels).
"""

from collections.abc import Callable

import numpy as np
import torch

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.corruptions import COLOUR_TYPES, TYPES
from robench.corruptions.corruption import NUM_COLOURS, Corruption
from robench.corruptions.jpeg_compression_impl import compressed
from robench.corruptions.levels import grey_levels, truncated
from robench.declarations.base import imported

CorruptionFunction = Callable[[torch.Tensor, Corruption, Draws], torch.Tensor]

SAVED_QUALITY = 85
# Number of elements that fit into a processor's cache; chunks affect speed only.
PORTION_ON_CPU = 2**18
PORTION_ON_OTHERS = 2**25


def corrupt(declaration: Corruption, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return images (B, C, H, W) in [0, 1] with the corruption, all multiples of 1/255.

    Raises:
        ContractError: inputs are not images, or neither coloured nor grey and the type needs these.
    """
    return Perturbed(inputs=corrupted(declaration, batch.inputs, draws))


def corrupted(declaration: Corruption, images: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Return images as ``corrupt``."""
    if problem := declaration.problem_with_shape(tuple(images.shape[1:])):
        raise ContractError(problem)
    portion = PORTION_ON_CPU if images.device.type == "cpu" else PORTION_ON_OTHERS
    step = max(1, portion // max(1, images[0].numel()))
    with torch.no_grad():
        result = _room_for(images)
        for start in range(0, len(images), step):
            rows = range(start, min(start + step, len(images)))
            saved = _saved_levels(declaration, images[rows.start : rows.stop], draws.take(rows))
            torch.div(saved, 255.0, out=result[rows.start : rows.stop])
    return result


def _room_for(images: torch.Tensor) -> torch.Tensor:
    if images.device.type != "cpu":
        return torch.empty_like(images, memory_format=torch.contiguous_format)
    # Numpy requests large pages, without which the first access to a batch takes as long as its contrast.
    return torch.from_numpy(np.empty(images.shape, dtype=np.float32))


def _saved_levels(declaration: Corruption, images: torch.Tensor, draws: Draws) -> torch.Tensor:
    # Whole planes for any layout of the batch, since filters run along them.
    levels = (images.contiguous() * 255.0).round_()
    algorithm: CorruptionFunction = imported(TYPES[declaration.type])
    corrupted = algorithm(_coloured(levels) if declaration.type in COLOUR_TYPES else levels, declaration, draws)
    saved = truncated(corrupted).clamp_(0.0, 255.0).float()
    saved = compressed(_coloured(saved), SAVED_QUALITY) if declaration.saved_as == "jpeg-85" else saved
    return saved if saved.shape[1] == images.shape[1] else grey_levels(saved)


def _coloured(levels: torch.Tensor) -> torch.Tensor:
    """Return grey levels (B, 1, H, W) as three equal channels, and others as they are."""
    return levels.repeat(1, NUM_COLOURS, 1, 1) if levels.shape[1] == 1 else levels
