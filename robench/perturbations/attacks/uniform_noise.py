"""Uniform noise within the budget.

Source: Carlini et al. 2019, arXiv:1902.06705, section 4: what random search finds, every attack must find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.seeds import Stream
from robench.perturbations.attacks.ball import linf_ball

if TYPE_CHECKING:
    import torch

    from robench.core.protocols import Batch, Draws, Victim
    from robench.declarations.attacks import UniformNoise


def uniform_noise(declaration: UniformNoise, batch: Batch, victim: Victim, draws: Draws) -> torch.Tensor:
    """Return inputs (B, ...) moved by noise drawn uniformly from [-epsilon, epsilon], cut to [0, 1]."""
    noise = draws.uniform(Stream(purpose="noise"), batch.inputs.shape[1:])
    moved = batch.inputs + (2.0 * noise - 1.0) * float(declaration.epsilon)
    return linf_ball(batch.inputs, declaration.epsilon).project(moved)
