"""Sign walk with halved steps: x <- project(x + (epsilon / 2) 2^-t sign(gradient)), t = 0, 1, ...

The loop of ``search`` keeps the best point and stops early, if declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attacks.search import State, search
from robench.tasks.classification_impl import LOSSES

if TYPE_CHECKING:
    from robench.attacks.problem import Problem, Reached

    from robench_example_plugin.sign_walk import SignWalk


class SignWalkSearch:
    """Search from the clean inputs."""

    def __init__(self, declaration: SignWalk) -> None:
        self.num_steps = declaration.num_steps
        self.loss = LOSSES[declaration.loss]

    def begin(self, problem: Problem, restart: int) -> State:
        """Return the clean inputs."""
        return State(points=problem.inputs)

    def step(self, problem: Problem, state: State, step: int) -> State:
        """Return the points after one step, within the budget and the box."""
        seen = problem.differentiate(state.points, self.loss)
        length = 0.5 ** (step + 1) * problem.region.epsilon
        return State(problem.region.project(state.points + length * seen.gradient().sign()), seen)


def sign_walk(declaration: SignWalk, problem: Problem) -> Reached:
    """Return points (B, ...) of the region after ``num_steps`` steps."""
    return search(
        SignWalkSearch(declaration), problem, num_restarts=1, returns=declaration.returns, stop=declaration.stop
    )
