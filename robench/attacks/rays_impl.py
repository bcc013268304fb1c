"""RayS: search for the signs of a change of least size that fools a victim that shows classes alone.

Source: Chen & Gu 2020, arXiv:2006.12792, Algorithms 1 to 3, and the authors' code. A direction is a sign for each
value. A trial flips a block of the signs of the best direction: all, then each half, each quarter, and so on down to
single values. One query at the best radius tells whether the trial fools there; only then a binary search follows.

As in that code the direction of ones is never tried itself, a block has ceil(D / 2^level) of D values, and blocks of
one value are tried again and again. Unlike there, a binary search also ends with the queries, at its best radius.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from robench.attacks.label_problem import LabelProblem
from robench.attacks.problem import Reached
from robench.attacks.rays import Rays
from robench.attacks.rows import spread
from robench.devices import indices_on_cpu, to_device

# Levels beyond that of single values have the same blocks; their number must be a power of two in int64.
MOST_LEVELS = 40


@dataclass(frozen=True, slots=True)
class RaysState:
    """State of the searches of B examples with D values.

    Attributes:
        signs: (B, D) best directions; ``radii``: (B,) float64, theirs.
        level, block: (B,) int64, level of the trial's block and its number there.
        is_checking: (B,) whether the next query is the trial's first, at the best radius.
        low, high: (B,) float64, bounds of the binary search.
    """

    signs: Tensor
    radii: Tensor
    level: Tensor
    block: Tensor
    is_checking: Tensor
    low: Tensor
    high: Tensor

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Return the places (B,) of the first value of each block, and after its last one."""
        count = 2**self.level
        size = (self.signs.shape[1] + count - 1) // count
        return self.block * size, (self.block + 1) * size

    def trial(self) -> Tensor:
        """Return the best directions (B, D) with the signs of one block flipped."""
        first, end = self.ends
        places = torch.arange(self.signs.shape[1], device=first.device)
        return torch.where((places >= first[:, None]) & (places < end[:, None]), -self.signs, self.signs)


def rays(declaration: Rays, problem: LabelProblem) -> Reached:
    """Return the nearest points (B, ...) found, and a mask (B,) of those found; the clean input elsewhere."""
    nearest = problem.begun("linf")
    active = indices_on_cpu(~nearest.found)
    places, rows = to_device(active, problem.inputs.device), problem.take(active)
    if not len(rows):
        return problem.reached(nearest)
    inputs, lower, upper = rows.inputs, rows.region.lower, rows.region.upper
    signs, radii = torch.ones_like(inputs).flatten(1), (upper - lower).flatten(1).amax(1).double()
    count = torch.zeros_like(places)
    state = RaysState(signs, radii, count, count, count == 0, 0 * radii, radii)
    # Every example asks one query a round, wherever it is in its own search.
    for query in range(declaration.num_queries):
        trial = state.trial()
        radii = torch.where(state.is_checking, state.radii, (state.low + state.high) / 2)
        points = inputs + spread(radii.to(inputs.dtype), inputs) * trial.view_as(inputs)
        points = torch.clamp(points, lower, upper)
        is_fooled = rows.at(search=0, step=query).is_fooled(points)
        nearest.offer(places, points, is_fooled)
        state = next_state(state, trial, radii, is_fooled, declaration.tolerance / sqrt(trial.shape[1]))
    return problem.reached(nearest)


def next_state(state: RaysState, trial: Tensor, radii: Tensor, is_fooled: Tensor, tolerance: float) -> RaysState:
    """Return the state after a query at these radii (B,) along the trials (B, D), by whether it fooled (B,)."""
    low = torch.where(state.is_checking, 0.0, torch.where(is_fooled, state.low, radii))
    high = torch.where(is_fooled, radii, state.high)
    is_searching = torch.where(state.is_checking, is_fooled, high - low > tolerance)
    is_better = ~is_searching & ~state.is_checking & (high < state.radii)
    is_last = (state.block + 1 == 2**state.level) | (state.ends[1] >= trial.shape[1])
    next_level = torch.where(is_last, (state.level + 1).clamp(max=MOST_LEVELS), state.level)
    return RaysState(
        signs=torch.where(is_better[:, None], trial, state.signs),
        radii=torch.where(is_better, high, state.radii),
        level=torch.where(is_searching, state.level, next_level),
        block=torch.where(is_searching, state.block, torch.where(is_last, 0, state.block + 1)),
        is_checking=~is_searching,
        low=low,
        high=high,
    )
