"""Images of 8 bits a value, as files have them: whole levels between clean images and what attacks return.

A value is rounded toward its clean level, so that no budget in any norm is exceeded. The nearest points of minimum-norm
attacks, which have no budget, are rounded to the nearest level, as programs that write images do.
"""

import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.shard import NUM_LEVELS

CLOSE_TO_LEVEL = 1e-4  # By so much of a level a value may differ from it.


def levels_of(clean: Tensor) -> Tensor:
    """Return the levels of clean images (B, ...), whole numbers in float64.

    Raises:
        ContractError: a value is between two levels.
    """
    exact = clean.double() * NUM_LEVELS
    levels = exact.round()
    is_between = (exact - levels).abs() > CLOSE_TO_LEVEL
    if bool(is_between.any()):
        raise ContractError(
            f"clean images must have values of 8 bits to be written as such, got {float(clean[is_between][0]):.6g}, "
            f"which is between {int(exact[is_between][0])}/255 and the next; leave out pixels 8bit, and keep float32"
        )
    return levels


def as_written(clean: Tensor, points: Tensor, *, is_nearest: bool = False) -> Tensor:
    """Return the levels (B, ...), uint8, between clean images and points within [0, 1], or nearest to the points."""
    levels = levels_of(clean)
    change = points.double() * NUM_LEVELS - levels
    whole = change.round()
    if not is_nearest:
        whole = torch.where((change - whole).abs() <= CLOSE_TO_LEVEL, whole, change.trunc())
    return (levels + whole).to(torch.uint8)


def as_read(clean: Tensor, written: Tensor) -> Tensor:
    """Return float32 images (B, ...) of written levels; values that did not move are the clean ones to the bit."""
    return torch.where(written == levels_of(clean), clean, written.float() / NUM_LEVELS)
