"""Row-wise operations on tensors (B, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def spread(values: Tensor, like: Tensor) -> Tensor:
    """Return values (B,) in a shape that broadcasts over ``like`` (B, ...)."""
    return values.view(-1, *[1] * (like.ndim - 1))


def chosen(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return the rows of ``yes`` where the condition (B,) holds, else those of ``no``; possibly one of them itself.

    Rows are copied whole, which is faster than testing the condition per number, as torch.where does.
    """
    places = condition.nonzero()[:, 0]
    if not len(places):
        return no
    if len(places) == len(no):
        return yes
    return no.index_copy(0, places, yes.index_select(0, places))
