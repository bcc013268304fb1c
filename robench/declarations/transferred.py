"""Adversarial examples that were made against another model, and which perturbations make any examples at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.core.protocols import Declaration
from robench.declarations.audit import Audit
from robench.declarations.base import DeclarationBase
from robench.declarations.perturbations import Clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred(DeclarationBase):
    """Kept adversarial examples of a measurement, shown to another model. Made by ``robench transfer``, never in YAML.

    Attributes:
        source: key of the measurement that they were made in.
        attack: what made them, which says what they must keep to; of a sweep, the attack at one budget.
        budget: of a sweep, the name of that budget, such as ``4/255``.
        mean, std: the source's normalisation, per channel, in which the attack's budget may be meant.
    """

    kind: ClassVar[str] = "transferred"

    source: str
    attack: Declaration
    mean: tuple[float, ...]
    std: tuple[float, ...]
    budget: str | None = None


def makes_inputs(declaration: Declaration) -> bool:
    """Return whether a perturbation makes inputs that are not kept anywhere else."""
    return not isinstance(declaration, (Clean, Audit, Transferred))
