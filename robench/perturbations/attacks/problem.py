"""What an attack meets: examples, what it may search, and a victim whose every pass is counted.

An algorithm works on rows; which examples of a batch these are, with which random numbers the victim is asked, and how
many rows a pass has, is settled here. So every attack treats the victim alike: it asks for gradients of the inputs
alone, its black-box passes build no graph, each of its passes has draws of its own that are never those of the
prediction, and one example's pass does not depend on who else is still attacked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from robench.core.errors import ContractError
from robench.core.seeds import Stream
from robench.perturbations.attacks.losses import predicted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robench.core.protocols import Draws, Victim
    from robench.perturbations.attacks.losses import Loss
    from robench.perturbations.attacks.regions import Region

ROWS_AT_ONCE = 8


class Ledger:
    """Passes of the victim that each example of a batch went through, and how many searched for any."""

    def __init__(self, num_examples: int) -> None:
        self.num_queries = torch.zeros(num_examples, dtype=torch.int64)
        self.num_gradients = torch.zeros(num_examples, dtype=torch.int64)
        self.num_passes = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """Where an attack ended: (B, ...) points in its space; of a search for the nearest, (B,) whether it found one."""

    points: Tensor
    found: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """What one pass of the victim gave.

    Attributes:
        points: (B, ...) what it was shown.
        logits: (B, classes); the mean over the draws, where there were several.
        values: (B,) the attack's loss.
        gradient: of the loss with respect to the points, in their shape; None where none was asked for.
    """

    points: Tensor
    logits: Tensor
    values: Tensor
    gradient: Tensor | None = None

    def slope(self) -> Tensor:
        """Return the gradient.

        Raises:
            ContractError: none was asked for.
        """
        if self.gradient is None:
            raise ContractError("an attack wanted the gradient of a pass that it had asked for values alone")
        return self.gradient


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows to be attacked.

    Attributes:
        inputs: (B, ...) clean inputs in the attack's space; ``labels``: (B,) classes to move away from.
        region: what may be searched; ``draws``: random numbers of these rows.
        rows: (B,) int64 on the CPU, places of these rows in the batch, whose passes ``ledger`` counts.
        scale, shift: pixels are points times ``scale`` plus ``shift``; 1 and 0 where the attack's space is pixels.
        batch_size: most rows of one pass.
    """

    victim: Victim
    inputs: Tensor
    labels: Tensor
    region: Region
    draws: Draws
    ledger: Ledger
    rows: Tensor
    scale: Tensor
    shift: Tensor
    batch_size: int

    def __len__(self) -> int:
        return len(self.inputs)

    def pixels(self, points: Tensor) -> Tensor:
        """Return what the victim sees of points in the attack's space."""
        return points if self.scale.ndim == 0 else points * self.scale + self.shift

    def take(self, chosen: Tensor) -> Problem:
        """Return the problem of some of the rows: (B,) truth values, or places."""
        places = (chosen.nonzero()[:, 0] if chosen.dtype == torch.bool else chosen).cpu()
        here = places.to(self.inputs.device)
        return replace(
            self,
            inputs=self.inputs[here],
            labels=self.labels[here],
            region=self.region.take(here),
            draws=self.draws.take(places.tolist()),
            rows=self.rows[places],
        )

    def evaluate(self, points: Tensor, loss: Loss, num_draws: int = 1) -> Passed:
        """Return the victim's logits and the loss at points (B, ...), without a gradient."""
        with torch.inference_mode():
            logits = torch.stack([self._logits(points) for _ in range(num_draws)]).mean(0)
        # A copy, because tensors of inference mode could not be saved for a later gradient.
        logits = logits.clone()
        return Passed(points, logits, loss(logits, self.labels))

    def differentiate(self, points: Tensor, loss: Loss, num_draws: int = 1) -> Passed:
        """Return logits, loss and the loss's gradient at points (B, ...), means over ``num_draws`` passes.

        The losses of a batch are summed and not averaged: a mean would scale each gradient by the size of the batch.
        """
        passes = [self._differentiated(points, loss) for _ in range(num_draws)]
        self.ledger.num_gradients[self.rows] += num_draws
        if num_draws == 1:
            return passes[0]
        gradient = torch.stack([each.slope() for each in passes]).mean(0)
        logits = torch.stack([each.logits for each in passes]).mean(0)
        return Passed(points, logits, torch.stack([each.values for each in passes]).mean(0), gradient)

    def sample(self, points: Tensor, loss: Loss, seeds: Sequence[int]) -> Tensor:
        """Return the losses (B, S) at S points of each row, (B, S, ...), without a gradient.

        ``seeds`` are the victim's, B * S of them, row by row.
        """
        num_samples = points.shape[1]
        with torch.inference_mode():
            logits = self._passed(points.flatten(0, 1), seeds)
        self.ledger.num_queries[self.rows] += num_samples
        return loss(logits.clone(), self.labels.repeat_interleave(num_samples)).view(-1, num_samples)

    def predict(self, points: Tensor) -> Tensor:
        """Return the logits (B, classes) of the final prediction at these points: its draws, and no graph."""
        with torch.no_grad():
            return self._logits(points, self.draws.prediction_seeds)

    def fooled(self, logits: Tensor) -> Tensor:
        """Return (B,) whether another class than the label comes first."""
        return predicted(logits) != self.labels

    def _differentiated(self, points: Tensor, loss: Loss) -> Passed:
        points = points.detach().requires_grad_(True)
        with torch.enable_grad():
            logits = self._logits(points)
            values = loss(logits, self.labels)
        (gradient,) = torch.autograd.grad(values.sum(), points)
        return Passed(points.detach(), logits.detach(), values.detach(), gradient)

    def _logits(self, points: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        if seeds is None:
            seeds = self.draws.seeds(Stream(purpose="victim", query=self.ledger.num_passes))
            # Predictions are not counted: whether one is made can depend on the other examples.
            self.ledger.num_passes += 1
        self.ledger.num_queries[self.rows] += 1
        return self._passed(points, seeds)

    def _passed(self, points: Tensor, seeds: Sequence[int]) -> Tensor:
        pieces = [
            self._piece(points[start : start + self.batch_size], seeds[start : start + self.batch_size])
            for start in range(0, len(points), self.batch_size)
        ]
        logits = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        if not bool(torch.isfinite(logits).all()):
            raise ContractError("the model returned NaN or infinite logits for what an attack showed it")
        return logits

    def _piece(self, points: Tensor, seeds: Sequence[int]) -> Tensor:
        num_rows = pass_size(len(points), self.batch_size)
        if num_rows == len(points):
            return self.victim.logits(self.pixels(points), seeds)
        # Passes of one to three rows round differently, so that few rows are padded by repeating the last.
        padding = torch.arange(num_rows, device=points.device).clamp(max=len(points) - 1)
        padded = [*seeds, *[seeds[-1]] * (num_rows - len(points))]
        return self.victim.logits(self.pixels(points[padding]), padded)[: len(points)]


def pass_size(num_rows: int, batch_size: int) -> int:
    """Return how many rows a pass has for ``num_rows`` examples: the next multiple of 8, at most the batch.

    >>> [pass_size(n, 100) for n in (3, 9, 70, 98)]
    [8, 16, 72, 100]
    """
    return min(batch_size, -(-num_rows // ROWS_AT_ONCE) * ROWS_AT_ONCE)
