"""Declaration of sigma-zero, a minimum-norm attack in l0."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from robench.attacks.minimum_norm import NormDescent, SearchNorm
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class SigmaZero(NormDescent):
    """Minimum-norm attack in l0 by descent on a smooth number of changes. Cina et al. 2025, arXiv:2402.01879.

    Attributes:
        step_size: first step of Adam; the last is a tenth of it.
        sigma: square of the change that counts as half a change.
        threshold: size in [0, 1] below which changes are undone, at first.
        threshold_factor: part of the step size by which an adversarial point raises the threshold, and another lowers
            it.
    """

    kind: ClassVar[str] = "sigma-zero"
    implementation: ClassVar[str] = "robench.attacks.sigma_zero_impl:sigma_zero"
    norms: ClassVar[tuple[SearchNorm, ...]] = ("l0",)

    norm: SearchNorm = "l0"
    step_size: Annotated[float, Gt(0), Le(LARGEST)] = 1.0
    sigma: Annotated[float, Gt(0), Le(LARGEST)] = 1e-3
    threshold: Annotated[float, Ge(0), Le(1)] = 0.3
    threshold_factor: Annotated[float, Ge(0), Le(LARGEST)] = 0.01
