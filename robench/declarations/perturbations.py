"""All perturbations by kind, and the one that does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from robench.declarations.attacks import BoundedAttack, Fgsm, Pgd, UniformNoise
from robench.declarations.base import DeclarationBase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.protocols import Declaration
    from robench.core.suite import ThreatModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean(DeclarationBase):
    """The input as it is: clean accuracy is robustness to nothing."""

    kind: ClassVar[str] = "clean"


PERTURBATIONS: Mapping[str, type[DeclarationBase]] = {
    "clean": Clean,
    "uniform-noise": UniformNoise,
    "fgsm": Fgsm,
    "pgd": Pgd,
}


def threat_model_of(declaration: Declaration) -> ThreatModel | None:
    """Return what the attacker may do, or None where nothing bounds the perturbation."""
    return declaration.threat_model if isinstance(declaration, BoundedAttack) else None
