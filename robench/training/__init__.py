"""Training of registry entries: ``x.py`` declares a recipe, ``x_impl.py`` trains by it."""

from __future__ import annotations

from robench.core.plugins import Plugins
from robench.training.base import TrainingBase
from robench.training.deit import DeitTraining
from robench.training.embedded import Training
from robench.training.language import LanguageTraining
from robench.training.one_cycle import OneCycleTraining
from robench.training.text import TextTraining

__all__ = ["TRAININGS"]

# Kinds of an entry's `training`; the first is the default.
_BUILTIN: dict[str, type[TrainingBase]] = {
    "training": Training,
    "deit": DeitTraining,
    "one-cycle": OneCycleTraining,
    "language-training": LanguageTraining,
    "text-training": TextTraining,
}
TRAININGS = Plugins("training", _BUILTIN, base=TrainingBase)
