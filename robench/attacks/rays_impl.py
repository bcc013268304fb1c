"""RayS: search for the signs of a change of least size that fools a victim of which only the class is known.

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
        level, block: (B,) int64, the level of the trial's block and its number there.
        is_checking: (B,) whether the next query is the trial's first, at the best radius.
        low, high: (B,) float64, bounds of a binary search.
    """

    signs: Tensor
    radii: Tensor
    level: Tensor
    block: Tensor
    is_checking: Tensor
    low: Tensor
    high: Tensor


def rays(declaration: Rays, problem: LabelProblem) -> Reached:
    """Return the nearest points (B, ...) found, and a mask (B,) of those found; the clean input elsewhere."""
    nearest = problem.begun("linf")
    active = indices_on_cpu(~nearest.found)
    places, rows = to_device(active, problem.inputs.device), problem.take(active)
    if not len(rows):
        return problem.reached(nearest)
    state = first_state(rows)
    # Every example asks one query a round, at its own place in its own course.
    for query in range(declaration.num_queries):
        end = block_end(state)
        trial = flipped(state, end)
        radii = torch.where(state.is_checking, state.radii, (state.low + state.high) / 2)
        points = along(rows, trial, radii)
        is_fooled = rows.at(search=0, step=query).is_fooled(points)
        nearest.offer(places, points, is_fooled)
        state = next_state(state, trial, radii, end, is_fooled, declaration.tolerance / sqrt(trial.shape[1]))
    return problem.reached(nearest)


def first_state(problem: LabelProblem) -> RaysState:
    """Return the state before the first trial: all signs positive, and radii from one limit to the other."""
    region = problem.region
    signs = torch.ones_like(problem.inputs).flatten(1)
    radii = (region.upper - region.lower).flatten(1).amax(1).double()
    count = torch.zeros_like(radii, dtype=torch.int64)
    return RaysState(signs, radii, count, count, torch.ones_like(count, dtype=torch.bool), 0 * radii, radii)


def block_size(state: RaysState) -> Tensor:
    """Return the size (B,) of the blocks at the level of each example: ceil(D / 2^level)."""
    count = 2**state.level
    return (state.signs.shape[1] + count - 1) // count


def block_end(state: RaysState) -> Tensor:
    """Return the place (B,) after the last value of each example's block, which may be beyond all values."""
    return (state.block + 1) * block_size(state)


def flipped(state: RaysState, end: Tensor) -> Tensor:
    """Return the best directions (B, D) with the signs of one block flipped."""
    values = torch.arange(state.signs.shape[1], device=end.device)
    is_inside = (values >= (end - block_size(state))[:, None]) & (values < end[:, None])
    return torch.where(is_inside, -state.signs, state.signs)


def along(problem: LabelProblem, signs: Tensor, radii: Tensor) -> Tensor:
    """Return the points (B, ...) at these radii (B,) along directions (B, D), within the limits."""
    inputs = problem.inputs
    change = spread(radii.to(inputs.dtype), inputs) * signs.view_as(inputs)
    return torch.clamp(inputs + change, problem.region.lower, problem.region.upper)


def next_state(
    state: RaysState, trial: Tensor, radii: Tensor, end: Tensor, is_fooled: Tensor, tolerance: float
) -> RaysState:
    """Return the state after a query at these radii (B,) along the trials (B, D)."""
    low = torch.where(state.is_checking, 0.0, torch.where(is_fooled, state.low, radii))
    high = torch.where(is_fooled, radii, state.high)
    is_searching = torch.where(state.is_checking, is_fooled, high - low > tolerance)
    is_better = ~is_searching & ~state.is_checking & (high < state.radii)
    is_last = (state.block + 1 == 2**state.level) | (end >= trial.shape[1])
    return RaysState(
        signs=torch.where(is_better[:, None], trial, state.signs),
        radii=torch.where(is_better, high, state.radii),
        level=torch.where(~is_searching & is_last, (state.level + 1).clamp(max=MOST_LEVELS), state.level),
        block=torch.where(is_searching, state.block, torch.where(is_last, 0, state.block + 1)),
        is_checking=~is_searching,
        low=low,
        high=high,
    )
