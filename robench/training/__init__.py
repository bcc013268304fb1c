"""From a registry entry to the weights that it publishes: ``x.py`` declares a recipe, ``x_impl.py`` trains by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.training.deit import DeitTraining
from robench.training.embedded import Training

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.training.base import TrainingBase

__all__ = ["TRAININGS"]

# What an entry's `training` may be; without a `kind` it is of the first.
TRAININGS: Mapping[str, type[TrainingBase]] = {"training": Training, "deit": DeitTraining}
