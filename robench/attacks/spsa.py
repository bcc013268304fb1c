"""Simultaneous perturbation stochastic approximation as an attack."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt, Le

from robench.attacks.base import Count, Loss, Norm, SearchingAttack
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Spsa(SearchingAttack):
    """Ascent by gradients estimated from values of the loss alone. Uesato et al. 2018, arXiv:1802.05666.

    Attributes:
        learning_rate: Adam's; ``delta``, the distance of the samples from the point, in units of the space.
        num_steps: updates. ``num_samples``: pairs of opposite samples that one estimate is made from.
        loss: what is to rise. ``random_start``: begin at a random point of the budget, or at the clean input.
        formula: samples lie around the point that was reached (``paper``), or around twice the clean input, wherever
            the search has got to (``released``: what cleverhans 4.0, which the papers' code calls, does for torch).
    """

    kind: ClassVar[str] = "spsa"
    implementation: ClassVar[str] = "robench.attacks.spsa_impl:spsa"
    is_gradient_free: ClassVar[bool] = True
    can_warm_start: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_steps"
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    num_steps: Count
    learning_rate: Annotated[Fraction, Gt(0), Le(LARGEST)]
    delta: Annotated[Fraction, Gt(0), Le(LARGEST)]
    num_samples: Count
    random_start: bool = True
    loss: Loss = "margin"
    formula: Literal["paper", "released"] = "paper"

    @property
    def most_passes(self) -> tuple[int, int]:
        """Pairs of samples at each step, and no gradient."""
        return self.num_restarts * self.num_steps * 2 * self.num_samples, 0
