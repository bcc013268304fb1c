"""Sparse-RS: random search that exchanges some of the changed pixels for others, with random colours.

Source: Croce, Andriushchenko, Singh, Flammarion & Hein 2022, arXiv:2006.12834, Algorithms 1 and 2, and the authors'
code. A search begins at k random pixels with random colours, each channel at one end of its range. A trial returns
ceil(alpha k) of them to their clean values and gives as many others new colours; it is kept if the loss rises. alpha
falls from ``p_init`` in steps for 10,000 queries, rescaled to ``num_queries`` as in that code.

The authors' code draws the same places in its list for the whole batch; here each example has its own. There a colour
may be the clean one, as half of the colours of a black background are, and its pixel is then spent for nothing; here
all channels of such a colour are turned around. Pixels that cannot change at all take no place of the k.
Axes: B batch, C channels, N pixels of an image or values of an input, K changed ones.
"""

from functools import partial
from math import ceil

import torch
from torch import Tensor

from robench.attacks.problem import Problem, Reached
from robench.attacks.search import declared_search
from robench.attacks.sparse_rs import SparseRs
from robench.attacks.square_impl import SCHEDULED, TrialSearch
from robench.core.errors import ContractError
from robench.core.seeds import Stream
from robench.declarations.supports import L0

TRIALS_AT_ONCE = 8
# Last of 10,000 queries at which the proportion is that of the beginning, divided by the second number.
STEPS = ((0, 1), (50, 2), (200, 4), (500, 5), (1000, 6), (2000, 8), (4000, 10), (6000, 12), (8000, 15), (SCHEDULED, 20))


def sparse_rs(declaration: SparseRs, problem: Problem) -> Reached:
    """Return the best points (B, ...) of ``num_restarts`` random searches in the region.

    Raises:
        ContractError: inputs have fewer places than may change.
    """
    if problem_text := declaration.problem_with_shape(tuple(problem.inputs.shape[1:])):
        raise ContractError(f"{declaration.kind}: {problem_text}")
    l0 = declaration.l0
    channels, num_places = by_places(problem.inputs, l0).shape[1:]
    num_drawn = num_places + l0.count * channels

    def first(problem: Problem, restart: int) -> Tensor:
        drawn = problem.draws.uniform(Stream(purpose="start", restart=restart), (num_drawn,))
        return exchanged(problem, problem.inputs, 1.0, drawn, l0=l0)

    search = TrialSearch(
        declaration,
        problem.loss(declaration.loss),
        first=first,
        trial=partial(exchanged, l0=l0),
        purpose="pixels",
        num_drawn=num_drawn,
        at_once=TRIALS_AT_ONCE,
        num_scheduled=declaration.num_queries,
        schedule=proportion_exchanged,
    )
    return declared_search(declaration, search, problem)


def proportion_exchanged(step: int, num_scheduled: int, p_init: float) -> float:
    """Return the proportion alpha of the pixels that trial ``step``, from 0, exchanges.

    >>> [round(0.3 / proportion_exchanged(step, 10_000, 0.3)) for step in (0, 49, 50, 9_998)]
    [2, 2, 4, 20]
    """
    # The first point is query 0.
    rescaled = (step + 1) * SCHEDULED // num_scheduled
    return p_init / next(divisor for last, divisor in STEPS if rescaled <= last)


def by_places(values: Tensor, l0: L0) -> Tensor:
    """Return values (B, ...) as (B, C, N), with one channel where values are counted."""
    return values.flatten(2) if l0.unit == "pixels" else values.flatten(1)[:, None]


def exchanged(problem: Problem, best: Tensor, proportion: float, drawn: Tensor, *, l0: L0) -> Tensor:
    """Return best points (B, ...) with some of the changed places exchanged; ``drawn`` (B, N + K C) are in [0, 1)."""
    now, clean, lower, upper = (
        by_places(each, l0) for each in (best, problem.inputs, problem.region.lower, problem.region.upper)
    )
    channels, num_places = now.shape[1:]
    scores = drawn[:, :num_places]
    is_changed = (now != clean).any(1)
    num_new = ceil(proportion * l0.count)
    num_freed = (is_changed.sum(1, keepdim=True) + num_new - l0.count).clamp(min=0)
    ranks = torch.where(is_changed, scores, 2.0).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    places = torch.where(is_changed, scores - 1.0, scores).topk(num_new, dim=1).indices
    places = places[:, None].expand(-1, channels, -1)
    is_up = drawn[:, num_places:].view(len(drawn), channels, l0.count)[:, :, :num_new] >= 0.5
    below, above, before = lower.gather(2, places), upper.gather(2, places), clean.gather(2, places)
    is_idle = (torch.where(is_up, above, below) == before).all(1, keepdim=True)
    colours = torch.where(is_up ^ is_idle, above, below)
    freed = torch.where((ranks < num_freed)[:, None], clean, now)
    return freed.scatter(2, places, colours).view_as(best)
