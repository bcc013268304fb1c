"""Probe of an audit: examples that are correct when clean, attacks on them, and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.attacks.attack import problem_of
from robench.attacks.fgsm import Fgsm
from robench.core.protocols import Batch
from robench.perturbations.dispatch import perturb
from robench.perturbations.prediction import predict

if TYPE_CHECKING:
    from fractions import Fraction

    from torch import Tensor

    from robench.attacks.base import Attack
    from robench.attacks.problem import Problem
    from robench.core.protocols import Draws, Model
    from robench.tasks.base import Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Model and examples that it classifies correctly when clean.

    Attributes:
        epsilon: the budget in l-infinity, in pixel units, at which the model's robustness is claimed.
    """

    model: Model
    batch: Batch
    draws: Draws
    epsilon: Fraction
    batch_size: int

    def __len__(self) -> int:
        return len(self.batch.ids)

    def problem(self, declaration: Attack) -> Problem:
        """Return the problem of an attack."""
        return problem_of(declaration, self.batch, self.model, self.draws, self.batch_size)

    def gradient(self, loss: Loss) -> Tensor:
        """Return the gradient of a loss at the clean inputs, (B, ...).

        Raises:
            RuntimeError: torch finds none, for example because the model detached its graph.
        """
        problem = self.problem(Fgsm(epsilon=self.epsilon)).within("gradient").at(search=0, step=0)
        return problem.differentiate(problem.inputs, loss).slope()

    def stands(self, declaration: Attack) -> list[bool]:
        """Return whether each example survives an attack in pixel space, by the final prediction."""
        made = perturb(declaration, self.batch, self.model, self.draws, self.batch_size)
        problem = self.problem(declaration)
        verdicts: list[bool] = (~problem.fooled(problem.predict(made.inputs))).tolist()
        return verdicts


def clean_correct(model: Model, batch: Batch, draws: Draws, epsilon: Fraction, batch_size: int) -> Probe:
    """Return a probe of the examples of a batch that the final prediction classifies correctly."""
    logits = predict(model, batch.inputs, draws.prediction_seeds, batch_size)
    places = (logits.argmax(1) == batch.targets).nonzero()[:, 0]
    rows = places.tolist()
    chosen = Batch(
        ids=tuple(batch.ids[row] for row in rows), inputs=batch.inputs[places], targets=batch.targets[places]
    )
    return Probe(model=model, batch=chosen, draws=draws.take(rows), epsilon=epsilon, batch_size=batch_size)
