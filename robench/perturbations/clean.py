"""Identity perturbation."""

from dataclasses import dataclass
from typing import ClassVar

from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.declarations.base import PerturbationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean(PerturbationBase):
    """Unperturbed inputs."""

    kind: ClassVar[str] = "clean"
    implementation: ClassVar[str] = "robench.perturbations.clean:clean"
    is_clean: ClassVar[bool] = True
    makes_inputs: ClassVar[bool] = False


def clean(declaration: Clean, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the inputs unchanged."""
    return Perturbed(inputs=batch.inputs)
