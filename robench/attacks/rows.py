"""Operations on rows of tensors (B, ...), and the nearest adversarial point of each row.

On a device that a program must wait for, none of them waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from robench.devices import is_asynchronous

DECAY, SQUARE_DECAY, ADAM_EPSILON = 0.9, 0.999, 1e-8


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


@dataclass(frozen=True, slots=True)
class Moments:
    """Adam's running means (B, ...) of a gradient and of its square."""

    first: Tensor
    second: Tensor

    @classmethod
    def like(cls, points: Tensor) -> Moments:
        """Return those before the first step, in the shape of points."""
        return cls(torch.zeros_like(points), torch.zeros_like(points))


def adam(gradient: Tensor, before: Moments, step: int) -> tuple[Tensor, Moments]:
    """Return the direction (B, ...) of Adam's step number ``step``, from 0, and the next moments.

    Source: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1, with its usual constants.
    """
    first = DECAY * before.first + (1 - DECAY) * gradient
    second = SQUARE_DECAY * before.second + (1 - SQUARE_DECAY) * gradient.square()
    unbiased, unbiased_square = first / (1 - DECAY ** (step + 1)), second / (1 - SQUARE_DECAY ** (step + 1))
    return unbiased / (unbiased_square.sqrt() + ADAM_EPSILON), Moments(first, second)


def largest(values: Tensor, count: int | Tensor) -> Tensor:
    """Return a mask (B, ...) of the ``count`` largest values of each row, or of all if there are fewer.

    ``count`` may be (B,), one number per row, which is rounded up; the first of equal values are then taken first.
    """
    rows = values.flatten(1)
    mask = torch.zeros_like(rows, dtype=torch.bool)
    if isinstance(count, Tensor):
        order = rows.argsort(dim=1, descending=True, stable=True)
        is_taken = torch.arange(rows.shape[1], device=rows.device) < count[:, None]
        return mask.scatter_(1, order, is_taken).view_as(values)
    mask.scatter_(1, rows.topk(min(count, rows.shape[1]), dim=1).indices, value=True)
    return mask.view_as(values)


class Nearest:
    """Nearest successful point of each example.

    Attributes:
        points: (B, ...) nearest successful points; the starting points if there are none.
        distances: (B,) float64, from ``origin`` in ``norm``, in l0 the number of ``unit``; infinite without a success.
    """

    def __init__(self, origin: Tensor, norm: str, unit: str = "values") -> None:
        self.origin, self.norm, self.unit = origin, norm, unit
        self.points = origin.clone()
        self.distances = torch.full((len(origin),), torch.inf, dtype=torch.float64, device=origin.device)

    @property
    def found(self) -> Tensor:
        """Return a mask (B,) of the examples with a successful point."""
        return self.distances < torch.inf

    def offer(self, places: Tensor, points: Tensor, succeeded: Tensor) -> None:
        """Keep successful points that are nearer than before; ``places`` are the rows' indices in the batch."""
        if is_asynchronous(succeeded):
            distances = self._from_origin(places, points)
            nearer = succeeded & (distances < self.distances.index_select(0, places))
            put(places, nearer, (self.points, points), (self.distances, distances))
            return
        if not bool(succeeded.any()):
            return
        places, points = places[succeeded], points[succeeded]
        distances = self._from_origin(places, points)
        nearer = distances < self.distances[places]
        self.points[places[nearer]] = points[nearer]
        self.distances[places[nearer]] = distances[nearer]

    def _from_origin(self, places: Tensor, points: Tensor) -> Tensor:
        return length_of(points.double() - self.origin[places].double(), self.norm, self.unit)


def length_of(change: Tensor, norm: str, unit: str = "values") -> Tensor:
    """Return the lengths (B,) of changes (B, ...) in the norm; in l0 the numbers of changed values or pixels."""
    if norm == "l0":
        changed = change != 0
        return (changed.any(1) if unit == "pixels" else changed).flatten(1).sum(1).to(change.dtype)
    rows = change.flatten(1)
    if norm == "linf":
        return rows.abs().amax(1)
    return rows.norm(dim=1) if norm == "l2" else rows.abs().sum(1)


def over_draws(
    how: str, losses: Sequence[Tensor], outputs: Sequence[Tensor], gradients: Sequence[Tensor] = ()
) -> tuple[Tensor, ...]:
    """Return the loss (B,), outputs and gradient (B, ...) over several draws, each given by draw.

    ``mean`` has means, ``worst`` each row's draw of the lowest loss, and ``probability`` the loss -log mean exp(-L),
    whose gradient is the mean weighted by exp(-L), with mean outputs. Without ``gradients`` none is returned.
    """
    by_draw = torch.stack(list(losses))
    stacked = [torch.stack(list(each)) for each in (outputs, gradients) if each]
    if how == "worst":
        places, rows = by_draw.argmin(0), torch.arange(by_draw.shape[1], device=by_draw.device)
        return by_draw[places, rows], *(each[places, rows] for each in stacked)
    if how == "mean":
        return by_draw.mean(0), *(each.mean(0) for each in stacked)
    weights = [spread(each, of_draw) for each, of_draw in zip((-by_draw).softmax(0), stacked[-1], strict=True)]
    weighted = [(torch.stack(weights) * stacked[-1]).sum(0)] if gradients else []
    return log(len(by_draw)) - (-by_draw).logsumexp(0), stacked[0].mean(0), *weighted
