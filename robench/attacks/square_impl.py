"""Square attack: random search that changes one square of the image at a time and keeps improvements.

Source: Andriushchenko et al. 2020, arXiv:1912.00049, Algorithms 1 to 3. The proportion p of the pixels that a square
covers falls from ``p_init`` as in the authors' code, whose steps are for 10,000 queries and are rescaled to
``num_queries``; with ``schedule: fixed`` they are not rescaled, as in AutoAttack's Square (Croce & Hein 2020,
``resc_schedule=False`` in its code).

l-infinity: starts at vertical stripes of +-epsilon; a trial sets a square to +-epsilon, a sign for each channel.
l2: starts at a grid of bumps; a trial moves the change of one window into another, where it adds a bump (equation 2)
and spends the budget that is not used yet.
l1: the same with absolute values in place of squares, steeper bumps, and changes that are projected onto the budget and
the box together, as in AutoAttack (Croce & Hein 2021, arXiv:2103.01208, section 4 and its code). Each channel of a new
window is given as many times its part of the budget as there are channels, before the projection.

Where libraries differ: pyautoattack and torchattacks draw place and signs of a square once for the whole batch, the
authors' l-infinity code and this one for each example. The authors' code draws signs again until a trial changes
something; the libraries do not, and so waste up to half of the queries on grey images; here the signs of an idle trial
are turned around. All three never place a square at the last row or column (``randint(0, h - s)``); here they do, as in
Algorithm 2. With ``trials: as_drawn`` idle trials and the last row and column are as in pyautoattack. In l2,
torchattacks takes the norm of both windows over all channels, the others over each, as here; on images of few pixels
the grid of bumps of all three leaves the image (of side 14 they fail), here it is in the middle. pyautoattack and
torchattacks count the first point beside ``num_queries``; here it is one of them.

Two seeds of any of them give different verdicts on many images while queries are few: of 600 digits, at 200 queries,
two of this one's agree on 83 % and two of pyautoattack's on 81 %. With per-example squares the robust accuracy itself
is stable (0.525 and 0.527 in l-infinity at 24/255; pyautoattack, whose batch shares them, 0.490 and 0.607).

Bumps of l2 and l1: section 3.4 and equation 2; in l1 the code of AutoAttack, whose hills fall with the fourth power of
the ring's number and not with its square (Croce & Hein 2021, arXiv:2103.01208).
Axes: B batch, C channels, H rows, W columns, S side of a window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isqrt, sqrt

import torch
from torch import Tensor

from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import chosen
from robench.attacks.search import State, declared_search
from robench.attacks.square import RandomSearch, Square
from robench.core.seeds import Stream
from robench.devices import to_device
from robench.tasks.base import Loss

# Queries after which the squares of a search shrink, out of SCHEDULED.
SCHEDULED = 10_000
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
TRIALS_AT_ONCE = 64
# Rows and columns of two windows, and whether the bump is horizontal or vertical.
NUM_PLACES = 5
# Fraction of the budget left unused, so that rounding does not exceed it, which would take another pass to fix.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialState(State):
    """Next trial, best points so far with their values, and the random numbers (B, trials, ...) of some trials."""

    best: Tensor
    values: Tensor
    drawn: Tensor
    restart: int


# First points (B, ...) of a search, of the problem and the number of the restart.
First = Callable[[Problem, int], Tensor]
# Trial (B, ...) of the problem, best points (B, ...), the proportion of the values that it covers, and numbers (B, N).
Trial = Callable[[Problem, Tensor, float, Tensor], Tensor]


class TrialSearch:
    """Random search that keeps trials of higher loss.

    Args:
        declaration: the attack, with the number of queries and the proportion that the schedule begins with.
        loss: loss to maximise.
        first: function that makes the first points; ``trial``: function that makes a trial.
        purpose: purpose of the random numbers; ``num_drawn``: how many of them a trial takes, and ``at_once``: how many
            trials' are drawn together.
        num_scheduled: number of queries that the schedule is for; ``schedule``: function of the step, this number and
            the first proportion that returns a trial's proportion.
    """

    def __init__(
        self,
        declaration: RandomSearch,
        loss: Loss,
        *,
        first: First,
        trial: Trial,
        purpose: str,
        num_drawn: int,
        at_once: int,
        num_scheduled: int,
        schedule: Callable[[int, int, float], float] | None = None,
    ) -> None:
        # The last trial is evaluated when the search is over.
        self.num_steps = declaration.num_queries - 1
        self.loss, self.first, self.trial = loss, first, trial
        self.purpose, self.num_drawn, self.at_once = purpose, num_drawn, at_once
        self.num_scheduled, self.p_init = num_scheduled, declaration.p_init
        self.schedule = schedule or proportion_of_pixels

    def begin(self, problem: Problem, restart: int) -> TrialState:
        """Return the first points of this restart."""
        points = self.first(problem, restart)
        values = points.new_full((len(points),), -torch.inf)
        return TrialState(points=points, best=points, values=values, drawn=values, restart=restart)

    def step(self, problem: Problem, state: TrialState, step: int) -> TrialState:
        """Return the next trial, which differs from the best point in one place."""
        seen = problem.evaluate(state.points, self.loss)
        best = chosen(seen.values > state.values, state.points, state.best)
        drawn = state.drawn
        if step % self.at_once == 0:
            stream = Stream(purpose=self.purpose, restart=state.restart, step=step // self.at_once)
            drawn = problem.draws.uniform(stream, (self.at_once, self.num_drawn))
        proportion = self.schedule(step, self.num_scheduled, self.p_init)
        points = self.trial(problem, best, proportion, drawn[:, step % self.at_once])
        values = torch.maximum(seen.values, state.values)
        return replace(state, points=points, seen=seen, best=best, values=values, drawn=drawn)


def square(declaration: Square, problem: Problem) -> Reached:
    """Return the best points (B, C, H, W) of ``num_restarts`` random searches in the region."""
    is_linf = problem.region.norm == "linf"
    search = TrialSearch(
        declaration,
        problem.loss(declaration.loss),
        first=_stripes if is_linf else _bumps,
        trial=partial(_flipped if is_linf else _moved, as_drawn=declaration.trials == "as_drawn"),
        purpose="squares",
        num_drawn=NUM_PLACES + problem.inputs.shape[1],
        at_once=TRIALS_AT_ONCE,
        num_scheduled=num_scheduled(declaration),
    )
    return declared_search(declaration, search, problem)


def num_scheduled(declaration: Square) -> int:
    """Return the number of queries that the schedule of the square sizes is for."""
    return declaration.num_queries if declaration.schedule == "rescaled" else SCHEDULED


def proportion_of_pixels(step: int, num_scheduled: int, p_init: float) -> float:
    """Return the proportion of pixels covered by the square of trial ``step``, in a schedule for this many queries.

    >>> [proportion_of_pixels(step, 10_000, 0.8) for step in (0, 10, 11, 51, 9_999)]
    [0.8, 0.8, 0.4, 0.2, 0.0015625]
    """
    rescaled = step * SCHEDULED // num_scheduled
    return p_init / float(1 << sum(rescaled > halving for halving in HALVINGS))


def _stripes(problem: Problem, restart: int) -> Tensor:
    _, channels, _, width = problem.inputs.shape
    signs = problem.draws.signs(Stream(purpose="start", restart=restart), (channels, 1, width))
    return torch.where(signs > 0, problem.region.upper, problem.region.lower)


def _flipped(problem: Problem, best: Tensor, proportion: float, drawn: Tensor, *, as_drawn: bool) -> Tensor:
    """Return best points with one square at the edge of the budget; ``drawn`` are numbers (B, places and channels).

    Unless signs are used as drawn, those of a trial that changes nothing are flipped.
    """
    height, width = best.shape[2:]
    side = min(max(round(sqrt(proportion * height * width)), 1), height, width)
    cells = window_cells(drawn[:, :2], side, best.shape, spares_last=as_drawn)
    is_up = (drawn[:, NUM_PLACES:] >= 0.5)[..., None, None]
    upper, lower = cut_out(problem.region.upper, cells), cut_out(problem.region.lower, cells)
    window = torch.where(is_up, upper, lower)
    if as_drawn:
        return put_in(best, cells, window)
    idle = (window == cut_out(best, cells)).flatten(1).all(dim=1).view(-1, 1, 1, 1)
    return put_in(best, cells, torch.where(is_up ^ idle, upper, lower))


def _bumps(problem: Problem, restart: int) -> Tensor:
    draw, norm = problem.draws, problem.region.norm
    stream = Stream(purpose="start", restart=restart)
    change = bump_grid(problem.inputs, lambda shape: draw.uniform(stream, shape), norm)
    if norm == "l2":
        change *= problem.region.epsilon / _energies(change, norm).sqrt().clamp(min=TINY)
    return _spent(problem, change)


def _moved(problem: Problem, best: Tensor, proportion: float, drawn: Tensor, *, as_drawn: bool) -> Tensor:
    """Return best points with the change of one window moved to another; ``drawn`` as in ``_flipped``.

    Pixels in both windows belong to the destination. The new window receives, channel by channel, the energy of both
    windows and the unused part, so that the whole change has the length of the budget again.
    """
    norm, (channels, height, width) = problem.region.norm, best.shape[1:]
    side = min(max(round(sqrt(proportion * height * width)), 3) | 1, height, width)
    target, source = (
        window_cells(drawn[:, place : place + 2], side, best.shape, spares_last=as_drawn) for place in (0, 2)
    )
    change = best - problem.inputs
    budget = problem.region.epsilon ** (2 if norm == "l2" else 1)
    unused, at_target = (budget - _energies(change, norm)).clamp(min=0), cut_out(change, target)
    change = put_in(change, target, torch.zeros_like(at_target))
    at_source = cut_out(change, source)
    energy = unused / channels + _per_channel(at_target, norm) + _per_channel(at_source, norm)
    change = put_in(change, source, torch.zeros_like(at_source))
    signs = torch.where(drawn[:, NUM_PLACES:] < 0.5, -1.0, 1.0)[..., None, None]
    window = _of_length_one(signs * bump(side, best, drawn[:, 4], norm) + _of_length_one(at_target, norm), norm)
    return _spent(problem, put_in(change, target, window * (energy.sqrt() if norm == "l2" else channels * energy)))


def _spent(problem: Problem, change: Tensor) -> Tensor:
    """Return the points of changes scaled to the budget, except for clipping by the box and rounding."""
    return problem.region.project(problem.inputs + change * (1 - ROUNDING))


def _energies(change: Tensor, norm: str) -> Tensor:
    """Return squared l2 lengths, or l1 lengths, (B, 1, 1, 1)."""
    lengths: Tensor = change.flatten(1).norm(p=2 if norm == "l2" else 1, dim=1)
    return (lengths.square() if norm == "l2" else lengths).view(-1, 1, 1, 1)


def _per_channel(change: Tensor, norm: str) -> Tensor:
    return (change.square() if norm == "l2" else change.abs()).sum((2, 3), keepdim=True)


def _of_length_one(window: Tensor, norm: str) -> Tensor:
    energy = _per_channel(window, norm)
    return window / (energy.sqrt() if norm == "l2" else energy).clamp(min=TINY)


TINY = 1e-12
NUM_TILES = 5
ORDERS = {"l2": 2, "l1": 1}
# Power of a ring's number by which a hill decreases.
POWERS = {"l2": 2, "l1": 4}


def window_cells(drawn: Tensor, side: int, shape: Sequence[int], *, spares_last: bool = False) -> Tensor:
    """Return the cells (B, C * S * S) of one square for each image of ``shape`` (B, C, H, W), counted within an image.

    ``drawn`` (B, 2), numbers in [0, 1), determine the squares' places, which are equally likely. With ``spares_last``
    no square reaches the last row or column, unless it is as high or as wide as the image.
    """
    _, channels, height, width = shape
    first, places = _first_window(side, channels, height, width, drawn.device)
    if spares_last:
        places = (places - 1).clamp(min=1)
    top, left = torch.minimum((drawn * places).long(), places - 1).unbind(1)
    return (top * width + left)[:, None] + first


@lru_cache(maxsize=64)
def _first_window(side: int, channels: int, height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the cells (C * S * S,) of the top left square, and the number of rows and columns it could start at."""
    steps = torch.arange(side, device=device)
    planes = torch.arange(channels, device=device)[:, None, None] * (height * width)
    places = to_device(torch.tensor([height - side + 1, width - side + 1]), device)
    return (planes + steps[:, None] * width + steps).flatten(), places


def cut_out(images: Tensor, cells: Tensor) -> Tensor:
    """Return the windows (B, C, S, S) of images (B, C, H, W) at cells (B, C * S * S)."""
    windows = images.flatten(1).gather(1, cells)
    side = isqrt(cells.shape[1] // images.shape[1])
    return windows.view(len(images), images.shape[1], side, side)


def put_in(images: Tensor, cells: Tensor, windows: Tensor) -> Tensor:
    """Return images (B, C, H, W) with windows (B, C, S, S) at cells (B, C * S * S)."""
    return images.flatten(1).scatter(1, cells, windows.flatten(1)).view_as(images)


def bump(side: int, like: Tensor, drawn: Tensor, norm: str = "l2") -> Tensor:
    """Return bumps (B, 1, S, S) of length 1 in ``norm``: a hill above or beside its hollow, as drawn (B,)."""
    vertical = _bump(side, norm, like.dtype, like.device)
    return torch.where(drawn.view(-1, 1, 1, 1) < 0.5, vertical.T, vertical)


@lru_cache(maxsize=64)
def _bump(side: int, norm: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    both = torch.cat([_hill(side // 2, side, norm), -_hill(side - side // 2, side, norm)])
    return to_device((both / both.norm(p=ORDERS[norm])).float().to(dtype), device)


def _hill(height: int, width: int, norm: str) -> Tensor:
    """Return (height, width) float64 values of length 1 that increase in rings towards the middle (equation 2)."""
    rows, columns = torch.arange(height) - height // 2, torch.arange(width) - width // 2
    rings = torch.maximum(rows.abs()[:, None], columns.abs()[None, :])
    steps = 1 / torch.arange(1, max(height, width) // 2 + 2, dtype=torch.float64) ** POWERS[norm]
    # A pixel of ring d lies in all squares around the middle from the d-th on.
    hill: Tensor = steps.flip(0).cumsum(0).flip(0)[rings]
    return hill / float(hill.norm(p=ORDERS[norm]).clamp(min=TINY))


def bump_grid(images: Tensor, draw: Callable[[Sequence[int]], Tensor], norm: str = "l2") -> Tensor:
    """Return changes in the shape of images (B, C, H, W): adjacent bumps, a fifth of the shorter side wide.

    ``draw`` returns numbers in [0, 1), (B, *shape): orientation of each bump, and its sign in each channel.
    """
    batch, channels, height, width = images.shape
    side = max(min(height, width) // NUM_TILES, 1)
    down, across = height // side, width // side
    top, left = (height - down * side) // 2, (width - across * side) // 2
    drawn = draw((down, across, 1 + channels))
    bumps = bump(side, images, drawn[..., 0].flatten(), norm).view(batch, 1, down, across, side, side)
    signs = torch.where(drawn[..., 1:] < 0.5, -1.0, 1.0).permute(0, 3, 1, 2)[..., None, None]
    tiles = (signs * bumps).transpose(3, 4).reshape(batch, channels, down * side, across * side)
    grid = torch.zeros_like(images)
    grid[:, :, top : top + down * side, left : left + across * side] = tiles
    return grid
