"""Perturbations of inputs: attacks, corruptions, clean inputs and sweeps; functions are imported on first use.

``dispatch`` runs declared perturbations; ``draws`` are the random numbers of the examples.
"""

from __future__ import annotations

from robench.attacks import ATTACKS
from robench.core.plugins import Plugins
from robench.corruptions import CORRUPTIONS
from robench.corruptions.corruption import Corruption
from robench.declarations.perturbation_base import PerturbationBase
from robench.perturbations.clean import Clean

__all__ = ["PERTURBATIONS", "Clean"]

_BUILTIN: dict[str, type[PerturbationBase]] = {"clean": Clean, "corruption": Corruption}
PERTURBATIONS = Plugins.joined(_BUILTIN, ATTACKS, CORRUPTIONS, base=PerturbationBase)
