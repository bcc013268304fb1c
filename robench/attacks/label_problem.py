"""Problem of attacks that see labels alone: a victim whose passes return whether it was fooled, and nothing else."""

from collections.abc import Sequence

from torch import Tensor

from robench.attacks.nearest import begun, settled
from robench.attacks.problem import Problem, Reached
from robench.attacks.regions import Region
from robench.attacks.rows import Nearest
from robench.core.protocols import Draws


class LabelProblem:
    """Rows to be attacked with a victim that has no outputs and no gradients (hard-label).

    Passes are counted and have addresses as in ``Problem``.

    Attributes:
        inputs: (B, ...) clean inputs in the attack's space; ``region``: search region; ``draws``: random numbers of
            these rows.
    """

    __slots__ = ("__problem", "draws", "inputs", "region")

    inputs: Tensor
    region: Region
    draws: Draws

    def __init__(self, problem: Problem) -> None:
        self.__problem = problem
        self.inputs, self.region, self.draws = problem.inputs, problem.region, problem.draws

    def __len__(self) -> int:
        return len(self.inputs)

    def at(self, *, search: int, step: int) -> "LabelProblem":
        """Return the problem with the address of one step of one search, at which passes are allowed."""
        return LabelProblem(self.__problem.at(search=search, step=step))

    def take(self, chosen: Tensor) -> "LabelProblem":
        """Return the problem of a subset of the rows, selected by mask (B,) or indices."""
        return LabelProblem(self.__problem.take(chosen))

    def is_fooled(self, points: Tensor) -> Tensor:
        """Return (B,) whether points (B, ...) get another class than the label: one query each."""
        return self.__problem.evaluate(points, self.__is_fooled).values > 0

    def are_fooled(self, points: Tensor, draws: Sequence[int]) -> Tensor:
        """Return (B, S) whether each of S points (B, S, ...) does: S queries; ``draws`` as in ``Problem.sample``."""
        return self.__problem.sample(points, self.__is_fooled, draws) > 0

    def begun(self, norm: str) -> Nearest:
        """Return the nearest points before any search: those of misclassified examples are the clean inputs."""
        return begun(self.__problem, norm)

    def reached(self, nearest: Nearest) -> Reached:
        """Return the nearest points, as far as the final prediction confirms them."""
        return settled(self.__problem, nearest)

    def __is_fooled(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.__problem.task.is_fooled(outputs, labels).to(self.inputs.dtype)
