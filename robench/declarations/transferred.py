"""Adversarial examples that were made against another model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.core.protocols import PerturbationDeclaration
from robench.declarations.perturbation_base import PerturbationBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred(PerturbationBase):
    """Kept adversarial examples of a measurement, shown to another model. Made by ``robench transfer``, never in YAML.

    Attributes:
        source: key of the measurement that they were made in.
        attack: what made them, which says what they must keep to; of a sweep, the attack at one budget.
        budget: of a sweep, the name of that budget, such as ``4/255``.
        mean, std: the source's normalisation, per channel, in which the attack's budget may be meant.
    """

    kind: ClassVar[str] = "transferred"
    makes_inputs: ClassVar[bool] = False

    source: str
    attack: PerturbationDeclaration
    mean: tuple[float, ...]
    std: tuple[float, ...]
    budget: str | None = None
