"""From a registry entry to the weights that it publishes: ``x.py`` declares a recipe, ``x_impl.py`` trains by it."""

from __future__ import annotations

from robench.core.plugins import Plugins
from robench.training.base import TrainingBase
from robench.training.deit import DeitTraining
from robench.training.embedded import Training

__all__ = ["TRAININGS"]

# What an entry's `training` may be; without a `kind` it is of the first.
_BUILTIN: dict[str, type[TrainingBase]] = {"training": Training, "deit": DeitTraining}
TRAININGS = Plugins("training", _BUILTIN, base=TrainingBase)
