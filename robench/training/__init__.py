"""Training of registry entries: ``x.py`` declares a recipe, ``x_impl.py`` trains by it."""

from robench.core.plugins import Plugins
from robench.training.base import TrainingBase

__all__ = ["TRAININGS"]

# Kinds of an entry's `training`; the first is the default.
_BUILTIN: dict[str, str] = {
    "training": "robench.training.embedded:Training",
    "deit": "robench.training.deit:DeitTraining",
    "one-cycle": "robench.training.one_cycle:OneCycleTraining",
    "language-training": "robench.training.language:LanguageTraining",
    "text-training": "robench.training.text:TextTraining",
}
TRAININGS: Plugins[type[TrainingBase]] = Plugins("training", _BUILTIN, base=TrainingBase)
