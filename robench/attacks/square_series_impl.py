"""Square attack on time series: random search that changes one window of time at a time and keeps improvements.

Source: Andriushchenko et al. 2020, arXiv:1912.00049, Algorithms 1 and 2, in l-infinity. A trial sets one window of a
series to the clean values plus or minus epsilon, with a sign for each channel; it is kept if the loss rises. A window
covers the proportion p of the values: m = round(sqrt(p) C) random channels, at least one, and round(p T C / m) of the
series' own T steps. The proportion falls as in ``square_impl``. The search starts at plus or minus epsilon, with a sign
for each value.

Differences from images: a square of an image has all channels; series can have hundreds of them. On a trained
transformer (japanese-vowels, 40 series, 300 queries at 0.5 deviations) 32 % of the series survive sides of sqrt(p) in
time and channels, 38 % windows of p T steps in half of the channels or in a random number of them, and 42 % a start
with one sign for each channel. As in ``square``, signs are flipped where a trial would change nothing, and every
example has draws of its own.
"""

from math import sqrt

import torch
from torch import Tensor

from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import chosen
from robench.attacks.search import declared_search
from robench.attacks.square_impl import TrialSearch
from robench.attacks.square_series import SquareSeries
from robench.core.seeds import Stream

TRIALS_AT_ONCE = 16
# Place of a window; two numbers for each channel follow, its rank and its sign.
NUM_PLACES = 1


def square_series(declaration: SquareSeries, problem: Problem) -> Reached:
    """Return the best points (B, T, C) of ``num_restarts`` random searches in the region."""
    search = TrialSearch(
        declaration,
        problem.loss(declaration.loss),
        first=edges,
        trial=flipped,
        purpose="windows",
        num_drawn=NUM_PLACES + 2 * problem.inputs.shape[2],
        at_once=TRIALS_AT_ONCE,
        num_scheduled=declaration.num_queries,
    )
    return declared_search(declaration, search, problem)


def edges(problem: Problem, restart: int) -> Tensor:
    """Return points (B, T, C) at the edge of the budget, with a sign for each value."""
    signs = problem.draws.signs(Stream(purpose="start", restart=restart), problem.inputs.shape[1:])
    return torch.where(signs > 0, problem.region.upper, problem.region.lower)


def flipped(problem: Problem, best: Tensor, proportion: float, drawn: Tensor) -> Tensor:
    """Return best points (B, T, C) with one window at the edge of the budget.

    ``drawn`` (B, 1 + 2 C) are numbers in [0, 1). The signs of a trial that changes nothing are flipped.
    """
    _, num_steps, num_channels = best.shape
    ranks, signs = drawn[:, NUM_PLACES:].split(num_channels, dim=1)
    num_chosen = max(round(sqrt(proportion) * num_channels), 1)
    window = _windows(_lengths(problem), num_steps, proportion * num_channels / num_chosen, drawn[:, 0])
    is_chosen = ranks.argsort(dim=1, stable=True).argsort(dim=1, stable=True) < num_chosen
    inside = window[:, :, None] & is_chosen[:, None]
    is_up = (signs >= 0.5)[:, None].expand_as(best)
    upper, lower = problem.region.upper, problem.region.lower
    trial = torch.where(inside, torch.where(is_up, upper, lower), best)
    idle = (trial == best).flatten(1).all(1)
    return chosen(idle, torch.where(inside, torch.where(is_up, lower, upper), best), trial)


def _lengths(problem: Problem) -> Tensor:
    """Return the number of steps (B,) of each series without its padding, as float64."""
    free, inputs = problem.region.free, problem.inputs
    if free is None:
        return inputs.new_full((len(inputs),), inputs.shape[1], dtype=torch.float64)
    return free.any(2).sum(1).double()


def _windows(lengths: Tensor, num_steps: int, proportion: float, place: Tensor) -> Tensor:
    """Return the steps of each series that are in its window, as (B, T) booleans; all places are equally likely."""
    sizes = torch.minimum((proportion * lengths).round().clamp(min=1.0), lengths)
    first = (place.double() * (lengths - sizes + 1)).floor()
    steps = torch.arange(num_steps, device=place.device, dtype=torch.float64)
    return (steps >= first[:, None]) & (steps < (first + sizes)[:, None])
