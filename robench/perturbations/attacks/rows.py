"""One number for each example, beside tensors of many numbers for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def spread(values: Tensor, like: Tensor) -> Tensor:
    """Return values (B,) in a shape that broadcasts over ``like`` (B, ...)."""
    return values.view(-1, *[1] * (like.ndim - 1))
