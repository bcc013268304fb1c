"""Sources of scored inputs: attacks, or stored examples, in the number format in which they are stored.

With ``adversarial_dtype`` float16 an attack's change of each value is rounded toward zero to a float16, and the clean
input plus that change is scored. It lies between the clean input and the attack's, value by value, and so exceeds no
budget in any norm and no box. Rounding the image itself would not work: near 0.5 float16 neighbours differ by an eighth
of a grey level, with possibly none between the clean value and the attack's. With ``uint8`` the images themselves are
those of files with 8 bits a value, rounded toward the clean levels (``attacks.levels``).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from robench.attacks.levels import as_read, as_written
from robench.core.declared import PerturbationDeclaration
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.shard import EXACT_DTYPE, WRITTEN_DTYPE, Measurement, ShardHeader
from robench.domains import DOMAINS
from robench.evaluation.foreign import title_of_foreign, watched
from robench.perturbations.dispatch import perturb_each
from robench.store.adversarial import ONE_BUDGET, AdversarialExamples


class Source(Protocol):
    """Source of scored inputs."""

    def __call__(
        self, measurement: Measurement, batch: Batch, model: Model, draws: Draws
    ) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
        """Yield each attack of the measurement's condition, with its result on the batch."""


class Attacked:
    """Source that runs the attacks.

    Attributes:
        collects: whether it keeps the results of all batches.
    """

    def __init__(self, *, collects: bool = False) -> None:
        self.collects = collects
        self._ids: dict[str, None] = {}
        self._points: dict[str, list[NDArray[Any]]] = {}
        self._found: dict[str, list[NDArray[Any]]] = {}

    def __call__(
        self, measurement: Measurement, batch: Batch, model: Model, draws: Draws
    ) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
        """Yield each attack with its result, rounded as declared by the measurement."""
        declaration = measurement.condition.perturbation
        domain = DOMAINS[measurement.condition.dataset.domain].rules

        def made(seen: Model) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
            return perturb_each(declaration, batch, seen, draws, measurement.batch_size)

        title = title_of_foreign(declaration)
        for attack, perturbed in made(model) if title is None else watched(title, batch, model, made):
            points = perturbed.inputs
            if measurement.adversarial_dtype != EXACT_DTYPE:
                # Before rounding, which could hide that the attack exceeded its budget.
                domain.check_perturbed(perturbed.inputs, batch.inputs, attack, model)
                make = as_written if measurement.adversarial_dtype == WRITTEN_DTYPE else rounded_change
                points = make(batch.inputs, perturbed.inputs)
                perturbed = replace(perturbed, inputs=restored(batch.inputs, points))
            if self.collects:
                name = None if attack is declaration else attack.epsilon_name
                self._collect(name or ONE_BUDGET, batch.ids, points, perturbed.found)
            yield attack, perturbed

    def examples(self, shard: ShardHeader) -> AdversarialExamples:
        """Return the collected examples, which must cover the whole shard."""
        return AdversarialExamples(
            shard=shard,
            ids=tuple(self._ids),
            points={name: np.concatenate(arrays) for name, arrays in self._points.items()},
            found={name: np.concatenate(arrays) for name, arrays in self._found.items()},
        )

    def _collect(self, name: str, ids: tuple[str, ...], points: torch.Tensor, found: torch.Tensor | None) -> None:
        # A batch is padded with its last example, which counts once.
        distinct = dict.fromkeys(ids)
        self._ids |= distinct
        self._points.setdefault(name, []).append(_array(points, len(distinct)))
        if found is not None:
            self._found.setdefault(name, []).append(_array(found, len(distinct)))


def rounded_change(clean: torch.Tensor, adversarial: torch.Tensor) -> torch.Tensor:
    """Return a float16 change (B, ...) for each value of float32 ``clean``, in the direction of ``adversarial``.

    ``moved(clean, change)`` lies between the two, both included: compared exactly, in float32.
    """
    change = (adversarial.double() - clean.double()).half()
    while bool((beyond := _is_beyond(clean, change, adversarial)).any()):
        bits = change.view(torch.int16)
        # The next number toward zero, for either sign.
        change = torch.where(beyond, bits - 1, bits).view(torch.float16)
    return change


def moved(clean: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """Return float32 ``clean`` plus a float16 change: one addition, the same on every kind of device."""
    return clean + change.float()


def restored(clean: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Return float32 inputs (B, ...) of kept points: inputs, float16 changes of clean ones, or uint8 levels."""
    if points.dtype == torch.uint8:
        return as_read(clean, points)
    return moved(clean, points) if points.dtype == torch.float16 else points


def _is_beyond(clean: torch.Tensor, change: torch.Tensor, adversarial: torch.Tensor) -> torch.Tensor:
    reached = moved(clean, change)
    return ((change > 0) & (reached > adversarial)) | ((change < 0) & (reached < adversarial))


def _array(rows: torch.Tensor, count: int) -> NDArray[Any]:
    return rows[:count].detach().cpu().numpy().copy()
