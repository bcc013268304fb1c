"""Models under test: built from their declarations, loaded from weights that were checked, wrapped as victims."""

from robench.models.build import BACKBONES, build
from robench.models.containment import Contained, blamed
from robench.models.loading import load_strictly, load_victim
from robench.models.python_backbone_impl import code_digest
from robench.models.state_files import load_state
from robench.models.victim import ClassifierVictim
from robench.models.weights import digest, locate, resolve

__all__ = [
    "BACKBONES",
    "ClassifierVictim",
    "Contained",
    "blamed",
    "build",
    "code_digest",
    "digest",
    "load_state",
    "load_strictly",
    "load_victim",
    "locate",
    "resolve",
]
