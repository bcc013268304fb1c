"""Loop of all iterative attacks: restarts, steps, best points, early stopping.

An attack is an ``Algorithm``, which defines the initial state and the step from one state to the next. Success, best
points and early stopping are handled here, identically for all attacks. Each step receives the problem with its own
address, so that the draws of its passes do not depend on the other examples still under attack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from robench.attacks.base import SearchingAttack
from robench.attacks.problem import Passed, Problem, Reached
from robench.attacks.regions import random_start
from robench.attacks.rows import put
from robench.core.seeds import Stream
from robench.devices import indices_on_cpu, to_device
from robench.tasks.base import Loss


@dataclass(frozen=True, slots=True)
class State:
    """State of a search; algorithms add their own tensors, with examples along the first axis.

    Attributes:
        points: (B, ...) next points to be evaluated.
        seen: the last pass, None before the first.
    """

    points: Tensor
    seen: Passed | None = None


AnyState = TypeVar("AnyState", bound=State)
# Right answers of a point that has not been evaluated.
MANY = torch.iinfo(torch.int64).max


class Algorithm(Protocol[AnyState]):
    """Initial state and step of an attack.

    Attributes:
        num_steps: number of steps per search.
        loss: loss to maximise, also used to compare the points of all searches.
    """

    num_steps: int
    loss: Loss

    def begin(self, problem: Problem, restart: int) -> AnyState:
        """Return the initial state of search number ``restart``."""

    def step(self, problem: Problem, state: AnyState, step: int) -> AnyState:
        """Return the state after step ``step``, given the pass in ``seen`` at the current points."""


class Kept:
    """Best point of each example so far: fewest right answers, so fooled before not fooled, then highest loss.

    With ``published`` the last fooled point, and until there is one the clean input before any clipping.
    """

    def __init__(self, problem: Problem, *, published: bool = False) -> None:
        self.points = (problem.clean if published else problem.inputs).clone()
        self._published = published
        self._values = torch.full((len(problem),), -torch.inf, device=problem.inputs.device)
        self._num_right = torch.full_like(self._values, MANY, dtype=torch.int64)

    def offer(self, problem: Problem, places: Tensor, seen: Passed) -> None:
        """Keep points that are better than before; ``places`` are the indices of the problem's rows in the batch."""
        num_right = problem.num_right(seen.outputs)
        best = self._num_right.index_select(0, places), self._values.index_select(0, places)
        chosen = num_right == 0 if self._published else is_better((num_right, seen.values), best)
        self._put(places, chosen, seen.points, seen.values, num_right)

    def fooled(self, places: Tensor) -> Tensor:
        """Return (B,) whether a fooling point is kept for these examples."""
        return self._num_right.index_select(0, places) == 0

    def settle(self, places: Tensor, points: Tensor) -> None:
        """Fix the points of these examples permanently."""
        values, everywhere = torch.full_like(places, torch.inf, dtype=self._values.dtype), places >= 0
        self._put(places, everywhere, points, values, torch.zeros_like(places))

    def _put(self, places: Tensor, chosen: Tensor, points: Tensor, values: Tensor, num_right: Tensor) -> None:
        put(places, chosen, (self.points, points), (self._values, values), (self._num_right, num_right))


def is_better(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """Return (B,) whether points have fewer right answers than others, or as many and a higher loss; (B,) each."""
    (num_right, values), (other_num_right, other_values) = one, other
    return (num_right < other_num_right) | ((num_right == other_num_right) & (values > other_values))


def search(
    algorithm: Algorithm[Any],
    problem: Problem,
    *,
    num_restarts: int,
    returns: str = "best",
    stop: str = "never",
    num_draws: int = 1,
    limited: Callable[[Problem], Problem] = lambda problem: problem,
) -> Reached:
    """Return the best points of all searches; with ``returns`` last, the best of their last points.

    ``limited`` returns the problem in the region that is searched, for the examples that are attacked. Last points are
    evaluated with ``num_draws`` passes, as many as the algorithm uses for the other points.

    With ``stop`` at_success (early stopping) a misclassified example is returned clean, and a fooled one leaves as soon
    as a new final prediction confirms it; that pass is skipped for a victim that draws nothing.

    With ``returns`` published the last fooled point of a search is kept, fooled examples start no other search, and
    examples that are misclassified or never fooled are returned clean.
    """
    published = returns == "published"
    kept, active = Kept(problem, published=published), _Active(problem, leaves=stop == "at_success")
    if published or stop == "at_success":
        active.drop(kept.points, kept)
    if len(active):
        active.problem = limited(active.problem)
    for restart in range(num_restarts):
        if not len(active):
            break
        state = algorithm.begin(active.problem, restart)
        for step in range(algorithm.num_steps):
            state = algorithm.step(active.problem.at(search=restart, step=step), state, step)
            if returns != "last" and state.seen is not None:
                kept.offer(active.problem, active.places, state.seen)
            state = active.drop_fooled(state, kept)
            if not len(active):
                break
        else:
            last = active.problem.at(search=restart, step=algorithm.num_steps)
            _finish(algorithm, last, active, state, kept, num_draws if returns != "last" or num_restarts > 1 else 0)
        if published:
            active.drop_kept(kept)
    return Reached(kept.points)


def declared_search(
    declaration: SearchingAttack,
    algorithm: Algorithm[Any],
    problem: Problem,
    num_draws: int = 1,
    limited: Callable[[Problem], Problem] = lambda problem: problem,
) -> Reached:
    """Return the points of ``search`` with restarts, returned point and stopping rule of a declaration."""
    return search(
        algorithm,
        problem,
        num_restarts=declaration.num_restarts,
        returns=declaration.returns,
        stop=declaration.stop,
        num_draws=num_draws,
        limited=limited,
    )


def starting_points(problem: Problem, restart: int, *, is_random: bool = True) -> Tensor:
    """Return the first points (B, ...) of a search: random ones of the ball, or the clean inputs."""
    if not is_random:
        return problem.inputs
    return random_start(problem.region, problem.inputs, problem.draws, Stream(purpose="start", restart=restart))


def _finish(
    algorithm: Algorithm[Any], problem: Problem, active: _Active, state: State, kept: Kept, num_draws: int
) -> None:
    """Evaluate the last points of a search; ``problem`` contains the remaining examples, with an address."""
    if not num_draws:
        kept.settle(active.places, state.points)
        return
    seen = problem.evaluate(state.points, algorithm.loss, num_draws)
    kept.offer(active.problem, active.places, seen)
    active.drop_fooled(replace(state, seen=seen), kept)


class _Active:
    """Examples still under attack; a step waits for the device once where examples can leave, and else never."""

    def __init__(self, problem: Problem, *, leaves: bool) -> None:
        self.problem = problem
        self.places = torch.arange(len(problem), device=problem.inputs.device)
        self._leaves = leaves

    def __len__(self) -> int:
        return len(self.problem)

    def drop(self, points: Tensor, kept: Kept) -> None:
        """Drop examples misclassified by the final prediction at these points."""
        self._let_go(indices_on_cpu(self.problem.fooled(self.problem.predict(points))), points, kept)

    def drop_kept(self, kept: Kept) -> None:
        """Drop examples with a kept point that fools the victim."""
        self._stay(indices_on_cpu(~kept.fooled(self.places)))

    def drop_fooled(self, state: AnyState, kept: Kept) -> AnyState:
        """Drop examples that the last pass misclassified, if the final prediction confirms it."""
        if not self._leaves or state.seen is None:
            return state
        gone = indices_on_cpu(self.problem.fooled(state.seen.outputs))
        if len(gone) and not state.seen.is_final:
            gone = self._confirmed(gone, state.seen.points)
        if not len(gone):
            return state
        stays = self._let_go(gone, state.seen.points, kept)
        # What the pass gave has been looked at, and need not be cut down.
        remaining: AnyState = rows_of(replace(state, seen=None), stays)
        return remaining

    def _confirmed(self, candidates: Tensor, points: Tensor) -> Tensor:
        """Return those of the candidates, indices on the CPU, that the final prediction misclassifies, too."""
        some = self.problem.take(candidates)
        confirmed = some.fooled(some.predict(points.index_select(0, to_device(candidates, points.device))))
        return candidates.index_select(0, indices_on_cpu(confirmed))

    def _let_go(self, gone: Tensor, points: Tensor, kept: Kept) -> Tensor:
        """Fix the points of the rows that leave, and return the rows that stay; both are indices on the CPU."""
        stays = torch.ones(len(self), dtype=torch.bool).index_fill_(0, gone, 0).nonzero()[:, 0]
        if len(gone):
            here = to_device(gone, points.device)
            kept.settle(self.places.index_select(0, here), points.index_select(0, here))
            self._stay(stays)
        return stays

    def _stay(self, stays: Tensor) -> None:
        if len(stays) < len(self):
            self.problem = self.problem.take(stays)
            self.places = self.places.index_select(0, to_device(stays, self.places.device))


def rows_of(state: Any, chosen: Tensor) -> Any:
    """Return a state, or a part of it, for a subset of its examples, selected by mask (B,) or indices."""
    return _at(state, indices_on_cpu(chosen))


def _at(state: Any, places: Tensor) -> Any:
    if isinstance(state, torch.Tensor):
        return state.index_select(0, to_device(places, state.device))
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{each.name: _at(getattr(state, each.name), places) for each in fields(state)})
    if isinstance(state, tuple):
        return tuple(_at(each, places) for each in state)
    return state
