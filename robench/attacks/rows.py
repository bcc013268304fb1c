"""Row-wise operations on tensors (B, ...), which never wait for a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from robench.devices import is_asynchronous

if TYPE_CHECKING:
    from torch import Tensor


def spread(values: Tensor, like: Tensor) -> Tensor:
    """Return values (B,) in a shape that broadcasts over ``like`` (B, ...)."""
    return values.view(-1, *[1] * (like.ndim - 1))


def chosen(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return the rows of ``yes`` where the condition (B,) holds, else those of ``no``; possibly one of them itself.

    On a CPU rows are copied whole, which is faster than testing the condition per number, as torch.where does.
    """
    if is_asynchronous(condition):
        return torch.where(spread(condition, no), yes, no)
    places = condition.nonzero()[:, 0]
    if not len(places):
        return no
    if len(places) == len(no):
        return yes
    return no.index_copy(0, places, yes.index_select(0, places))


def put(places: Tensor, condition: Tensor, *pairs: tuple[Tensor, Tensor]) -> None:
    """Write rows into tensors of the whole batch, in place, where the condition (B,) holds.

    ``places`` (B,) are the distinct indices of the rows in the batch; each pair is a tensor of the batch, and the rows.
    """
    if is_asynchronous(condition):
        for kept, new in pairs:
            kept.index_copy_(0, places, torch.where(spread(condition, new), new, kept.index_select(0, places)))
        return
    rows = condition.nonzero()[:, 0]
    if len(rows):
        places = places.index_select(0, rows)
        for kept, new in pairs:
            kept.index_copy_(0, places, new.index_select(0, rows))
