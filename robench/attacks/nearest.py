"""Loop of minimum-norm attacks by steps: clean predictions, restarts, nearest points, and the final prediction.

An attack is a ``NormAlgorithm``, which defines the first state of a search and the step from one state to the next. As
in the attacks' published code the point after the last step is not evaluated, so that a search of N steps has N passes.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from robench.attacks.minimum_norm import NormSearch
from robench.attacks.problem import Problem, Reached
from robench.attacks.rows import Nearest, chosen, largest, length_of, spread
from robench.attacks.search import AnyState
from robench.core.seeds import Stream
from robench.devices import indices_on_cpu, to_device

TINY = 1e-12
# Proportion by which a point is moved farther from the clean input if the final prediction does not confirm it.
FARTHER = 1e-3


class NormAlgorithm(Protocol[AnyState]):
    """First state and step of a minimum-norm attack.

    Attributes:
        num_steps: number of steps per search, each with one pass.
    """

    num_steps: int

    def begin(self, problem: Problem, points: Tensor) -> AnyState:
        """Return the first state of a search from points (B, ...)."""

    def step(self, problem: Problem, state: AnyState, step: int) -> AnyState:
        """Return the state after step ``step``, with the pass at the state's points in ``seen``."""


def nearest_search(declaration: NormSearch, algorithm: NormAlgorithm[Any], problem: Problem) -> Reached:
    """Return the nearest points of all searches, and a mask (B,) of those found; the clean input elsewhere.

    The first search starts at the clean input, later ones at random points at half of the distance found so far, or at
    distance 1 without one.
    """
    nearest = begun(problem, declaration.norm, declaration.unit)
    active = indices_on_cpu(~nearest.found)
    places = to_device(active, problem.inputs.device)
    rows = problem.take(active)
    for restart in range(declaration.num_restarts if len(rows) else 0):
        points = rows.inputs
        if restart:
            radius = torch.where(nearest.found, nearest.distances / 2, 1.0)[places]
            stream = Stream(purpose="start", restart=restart)
            if declaration.norm == "l0":
                points = drawn_places(rows, radius, declaration.unit, stream)
            else:
                points = drawn_start(rows, radius, declaration.norm, stream)
        state = algorithm.begin(rows, points)
        for step in range(algorithm.num_steps):
            state = algorithm.step(rows.at(search=restart, step=step), state, step)
            assert state.seen is not None  # a step reports its pass
            # The clean input, which the final prediction gets right, may fool a victim that draws.
            is_moved = (state.seen.points != rows.inputs).flatten(1).any(1)
            nearest.offer(places, state.seen.points, rows.fooled(state.seen.outputs) & is_moved)
    return settled(problem, nearest)


def begun(problem: Problem, norm: str, unit: str = "values") -> Nearest:
    """Return the nearest points before any search: those of misclassified examples are the clean inputs."""
    nearest = Nearest(problem.inputs, norm, unit)
    places = torch.arange(len(problem), device=problem.inputs.device)
    nearest.offer(places, problem.inputs, problem.fooled(problem.predict(problem.inputs)))
    return nearest


def settled(problem: Problem, nearest: Nearest) -> Reached:
    """Return the nearest points that the final prediction confirms, the clean input elsewhere, and a mask of the first.

    All rows are predicted together, as in the final prediction: at a boundary, rounding decides. Points that it denies
    are tried once more, a thousandth farther from the clean input.
    """
    points = nearest.points
    found = nearest.found & problem.fooled(problem.predict(points))
    denied = indices_on_cpu(nearest.found & ~found)
    if len(denied):
        # These alone, so that the other examples take no further pass.
        some, here = problem.take(denied), to_device(denied, points.device)
        farther = some.region.project(some.inputs + (1 + FARTHER) * (points.index_select(0, here) - some.inputs))
        points = points.index_copy(0, here, farther)
        found = found.index_copy(0, here, some.fooled(some.predict(farther)))
    return Reached(chosen(found, points, problem.inputs), found)


def drawn_start(problem: Problem, radius: Tensor, norm: str, stream: Stream) -> Tensor:
    """Return points (B, ...) in random directions at a distance ``radius`` (B,) from the clean inputs, then projected.

    Directions are uniform in a cube for l-infinity, and normal otherwise.
    """
    shape = problem.inputs.shape[1:]
    drawn = 2.0 * problem.draws.uniform(stream, shape) - 1.0 if norm == "linf" else problem.draws.normal(stream, shape)
    drawn = problem.region.freed(drawn)
    lengths = length_of(drawn, norm).clamp(min=TINY)
    return problem.region.project(problem.inputs + spread(radius.to(drawn.dtype) / lengths, drawn) * drawn)


def drawn_places(problem: Problem, counts: Tensor, unit: str, stream: Stream) -> Tensor:
    """Return points (B, ...) with new values at drawn places, as many as ``counts`` (B,), rounded up, at least one.

    Values are uniform between the limits of the region, and within 1 of the clean ones where there are none.
    """
    lower, upper, free = problem.region.lower, problem.region.upper, problem.region.free
    drawn = problem.draws.uniform(stream, (2, *problem.inputs.shape[1:]))
    order = drawn[:, 0, :1] if unit == "pixels" else drawn[:, 0]
    is_changed = largest(order if free is None else order - 2 * ~free, counts.clamp(min=1))
    is_limited = torch.isfinite(upper - lower)
    values = torch.where(is_limited, lower + drawn[:, 1] * (upper - lower), problem.inputs + 2 * drawn[:, 1] - 1)
    return torch.where(is_changed, problem.region.project(values), problem.inputs)
