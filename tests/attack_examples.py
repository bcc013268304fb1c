"""Victims and examples on which attacks are tested: models so simple that what an attack should reach is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from presence import present

from robench.attacks.rows import length_of
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


class Module(torch.nn.Module):
    """A victim as libraries take models: a module, with a parameter by which they ask for the device."""

    def __init__(self, victim: Model) -> None:
        super().__init__()
        self.victim = victim
        self.place = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.victim.outputs(inputs)


def class_distances(
    victim: LinearVictim, batch: Batch, norm: str = "l2", confidence: float = 0.0, scale: Any = None
) -> torch.Tensor:
    """The closed form without a box, to each class (B, K): its gap and confidence over its gradient's dual norm."""
    logits = victim.outputs(batch.inputs).double()
    weight = victim.weight.double() * (1.0 if scale is None else scale.double().expand(SHAPE).flatten())
    gaps = logits.gather(1, batch.targets[:, None]) - logits + confidence
    dual = {"linf": "l1", "l2": "l2", "l1": "linf"}[norm]
    steepness = torch.stack([length_of(weight - weight[label], dual) for label in batch.targets])
    return torch.where(steepness == 0, torch.inf, gaps / steepness.clamp(min=1e-12))


def least_distances(victim: LinearVictim, batch: Batch, *arguments: Any, **named: Any) -> torch.Tensor:
    """The least over classes, (B,)."""
    return class_distances(victim, batch, *arguments, **named).amin(1)


def distances(result: Perturbed, batch: Batch, norm: str = "l2") -> torch.Tensor:
    return length_of(result.inputs.double() - batch.inputs.double(), norm)


def nearest_seen(declaration: Declaration, batch: Batch, victim: LinearVictim, norm: str) -> torch.Tensor:
    """Attack, and check that the nearest point that fooled the victim is what comes back; return what was found."""
    seen: list[torch.Tensor] = []
    plain = victim.outputs

    def watched(inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        logits = plain(inputs)
        if len(inputs) == len(batch.ids):
            lengths = length_of(inputs.detach().double() - batch.inputs.double(), norm)
            seen.append(torch.where(logits.detach().argmax(1) != batch.targets, lengths, torch.inf))
        return logits

    victim.outputs = watched  # type: ignore[method-assign]  # a victim that is watched
    result = attacked(declaration, batch, victim)
    best = torch.stack(seen).amin(0)
    expected = torch.where(best < torch.inf, best, 0.0)
    torch.testing.assert_close(distances(result, batch, norm), expected, atol=1e-9, rtol=0)
    return present(result.found)


def check_returned_clean_where_wrong(declaration: Declaration, victim: LinearVictim, batch: Batch) -> None:
    """Check that a search for the nearest returns what is wrong already clean, found and unasked."""
    odd = torch.arange(len(batch.ids)) % 2 == 1
    wrong = replace(batch, targets=(batch.targets + odd) % NUM_CLASSES)
    result = attacked(declaration, wrong, victim)
    assert bool(present(result.found).all())
    assert torch.equal(result.inputs[odd], wrong.inputs[odd])
    assert not bool(present(result.num_gradients)[odd].any())
    everything = attacked(declaration, replace(batch, targets=(batch.targets + 1) % NUM_CLASSES), victim)
    assert torch.equal(everything.inputs, batch.inputs)


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
