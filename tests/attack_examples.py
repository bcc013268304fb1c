"""Victims and examples on which attacks are tested: models so simple that what an attack should reach is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from robench.core.declared import Declaration
from robench.core.protocols import Batch, Model, Perturbed
from robench.testing.models import NUM_CLASSES, SHAPE, by_rows, perturbed, rows_of
from robench.testing.models import LinearModel as LinearVictim

__all__ = ["MEAN", "NUM_CLASSES", "SHAPE", "SIZE", "STD", "LinearVictim", "by_rows", "rows_of"]


SIZE = torch.Size(SHAPE).numel()
MEAN, STD = LinearVictim.normalisation


class CurvedVictim(LinearVictim):
    """Logits are a small network of one hidden layer."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        logits = super().outputs(inputs)
        return torch.tanh(by_rows(logits, self.weight[:, :NUM_CLASSES].T)) + 0.1 * logits


class ConstantVictim(LinearVictim):
    """The same logits whatever it sees, the first class ahead, and no gradient points anywhere."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return 0 * super().outputs(inputs) + torch.arange(len(self.weight), 0, -1.0)


class SmoothVictim(LinearVictim):
    """Logits are W tanh(2 x - 1) + constant, of four classes: gradients change with the point."""

    normalisation = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)

    def __init__(self, constant: float = 0.0, num_classes: int = 4, shape: Sequence[int] = SHAPE) -> None:
        super().__init__(0, constant, num_classes, shape)

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return by_rows(torch.tanh(2 * inputs - 1).flatten(1), self.weight) + self.constant


class FunctionVictim:
    """Logits of any function of the pixels; it remembers what it was shown, and with which seeds."""

    device = torch.device("cpu")
    normalisation = torch.full((3, 1, 1), 0.4), torch.full((3, 1, 1), 0.25)

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.function = function
        self.shown: list[torch.Tensor] = []
        self.seeds: list[tuple[int, ...] | None] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.shown.append(inputs.detach().clone())
        self.seeds.append(None if seeds is None else tuple(seeds))
        return self.function(inputs)


def around_the_middle(victim: Model, num_examples: int = 16, seed: int = 1, spread: float = 0.3) -> Batch:
    """Return inputs around the middle of the box, that the victim gets right."""
    generator = torch.Generator().manual_seed(seed)
    inputs = 0.5 + spread * (2 * torch.rand(num_examples, *SHAPE, generator=generator) - 1)
    ids = tuple(f"example-{i}" for i in range(num_examples))
    return predicted_by(victim, Batch(ids=ids, inputs=inputs, targets=torch.zeros(num_examples).long()))


def anywhere(num_examples: int = 6, low: float = 0.0, high: float = 1.0, shape: Sequence[int] = SHAPE) -> Batch:
    """Return inputs of values drawn between two limits, with any of four classes."""
    generator = torch.Generator().manual_seed(1)
    inputs = low + (high - low) * torch.rand(num_examples, *shape, generator=generator)
    targets = torch.randint(0, 4, (num_examples,), generator=generator)
    return Batch(ids=tuple(map(str, range(num_examples))), inputs=inputs, targets=targets)


def predicted_by(victim: Model, batch: Batch) -> Batch:
    """Return the batch with the classes that the victim predicts, so that it gets all of them right."""
    with torch.no_grad():
        return replace(batch, targets=victim.outputs(batch.inputs).argmax(1))


# Any: victims of tests do not have all of a victim.
def attacked(
    declaration: Declaration,
    batch: Batch,
    victim: Any = None,
    seeds: Sequence[int] | None = None,
    batch_size: int | None = None,
) -> Perturbed:
    """Return what the attack makes of the batch: against a ``SmoothVictim``, with the seeds 0, 1, 2 ..., by default."""
    return perturbed(declaration, batch, victim or SmoothVictim(), seeds, batch_size)


def margins(inputs: torch.Tensor, batch: Batch, victim: Model) -> torch.Tensor:
    """Return how far the best other class is ahead of the label, (B,)."""
    with torch.no_grad():
        logits = victim.outputs(inputs)
        others = logits.scatter(1, batch.targets[:, None], -torch.inf).amax(1)
        return others - logits.gather(1, batch.targets[:, None])[:, 0]
