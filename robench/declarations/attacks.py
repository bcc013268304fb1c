"""Attacks: perturbations chosen against the victim. Budgets and steps are in pixel units, images lie in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.core.suite import ThreatModel
from robench.declarations.base import DeclarationBase

Epsilon = Annotated[Fraction, Ge(0), Le(1)]
StepSize = Annotated[Fraction, Gt(0), Le(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedAttack(DeclarationBase):
    """An attack that stays within ``epsilon`` of the clean input in ``norm``."""

    epsilon: Epsilon
    norm: Literal["linf"] = "linf"

    @property
    def threat_model(self) -> ThreatModel:
        """What the attacker may do."""
        return ThreatModel(norm=self.norm, epsilon=self.epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformNoise(BoundedAttack):
    """Uniform noise of the budget's full width, blind to the victim: what any attack must beat."""

    kind: ClassVar[str] = "uniform-noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fgsm(BoundedAttack):
    """Fast gradient sign method: one step of length epsilon. Goodfellow et al. 2015, arXiv:1412.6572."""

    kind: ClassVar[str] = "fgsm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgd(BoundedAttack):
    """Projected gradient descent on the cross-entropy. Madry et al. 2018, arXiv:1706.06083."""

    kind: ClassVar[str] = "pgd"

    step_size: StepSize
    num_steps: Annotated[int, Ge(1)]
    random_start: bool = True
    num_restarts: Annotated[int, Ge(1)] = 1

    def contradictions(self) -> list[str]:
        """Restarts that all begin at the clean input would all end at the same point."""
        if self.num_restarts > 1 and not self.random_start:
            return [f"num_restarts must be 1 without random_start, got {self.num_restarts}"]
        return []
