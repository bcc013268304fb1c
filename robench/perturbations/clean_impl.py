"""Identity perturbation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.protocols import Perturbed

if TYPE_CHECKING:
    from robench.core.protocols import Batch, Draws, Model
    from robench.perturbations.clean import Clean


def clean(declaration: Clean, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the inputs unchanged."""
    return Perturbed(inputs=batch.inputs)
