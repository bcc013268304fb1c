"""Training of registry entries: ``x.py`` declares a recipe, ``x_impl.py`` trains by it."""

from robench.core.plugins import Plugins
from robench.training.base import TrainingBase

__all__ = ["TRAININGS"]

# Kinds of an entry's `training`; the first is the default.
_BUILTIN: dict[str, str] = {
    "training": "robench.training.images:Training",
    "deit": "robench.training.deit:DeitTraining",
    "one-cycle": "robench.training.images:OneCycleTraining",
    "sequence-training": "robench.training.sequences:SequenceTraining",
    "segmentation-training": "robench.training.segmentation:SegmentationTraining",
    "language-training": "robench.training.texts:LanguageTraining",
    "decision-training": "robench.training.decisions:DecisionTraining",
    "text-training": "robench.training.texts:TextTraining",
}
TRAININGS: Plugins[type[TrainingBase]] = Plugins("training", _BUILTIN, base=TrainingBase)
