"""Declaration of the fast gradient sign method."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attacks.base import BoundedAttack, Count, Loss, Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class Fgsm(BoundedAttack):
    """Fast gradient sign method: one step of length epsilon. Goodfellow et al. 2015, arXiv:1412.6572.

    Attributes:
        loss: loss to maximise. ``num_draws``: number of passes averaged in a gradient, for victims that draw random
            numbers.
    """

    kind: ClassVar[str] = "fgsm"
    implementation: ClassVar[str] = "robench.attacks.fgsm_impl:fgsm"
    is_single_step: ClassVar[bool] = True
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")

    loss: Loss = "ce"
    num_draws: Count = 1

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of one gradient."""
        return self.num_draws, self.num_draws
