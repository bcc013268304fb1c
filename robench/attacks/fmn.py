"""Declaration of the fast minimum-norm attack."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.attacks.minimum_norm import NormDescent, SearchNorm
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Fmn(NormDescent):
    """Fast minimum-norm attack in l0, l1, l2 or l-infinity. Pintor et al. 2021, arXiv:2102.12827.

    Attributes:
        alpha_initial: length in l2 of the first step, in every norm; ``alpha_final``: that of the last, None for a
            hundredth of the first.
        gamma_initial: proportion by which the first steps change the radius; ``gamma_final``: that of the last.
        overshoot: proportion of the distance by which a search that has found nothing exceeds it at least in each step,
            in norms other than l0; 0 as published, whose steps may approach a boundary in l2 and never cross it.
    """

    kind: ClassVar[str] = "fmn"
    implementation: ClassVar[str] = "robench.attacks.fmn_impl:fmn"
    norms: ClassVar[tuple[SearchNorm, ...]] = ("linf", "l2", "l1", "l0")

    alpha_initial: Annotated[float, Gt(0), Le(LARGEST)] = 1.0
    alpha_final: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    gamma_initial: Annotated[float, Gt(0), Lt(1)] = 0.05
    gamma_final: Annotated[float, Ge(0), Lt(1)] = 0.001
    overshoot: Annotated[float, Ge(0), Le(LARGEST)] = 0.01
