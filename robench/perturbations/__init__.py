"""What makes inputs harder: attacks, corruptions, and what is above both. No torch: functions are imported on use.

``dispatch`` runs what is declared; ``draws`` are the random numbers of the examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.attacks import ATTACKS
from robench.corruptions.corruption import Corruption
from robench.perturbations.clean import Clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.declarations.perturbation_base import PerturbationBase

__all__ = ["PERTURBATIONS", "Clean"]

PERTURBATIONS: Mapping[str, type[PerturbationBase]] = {"clean": Clean, **ATTACKS, "corruption": Corruption}
