"""Declaration of the decoupled direction and norm attack, a minimum-norm attack in l2."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le, Lt

from robench.attacks.minimum_norm import NormDescent, SearchNorm
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Ddn(NormDescent):
    """Decoupled direction and norm attack, a minimum-norm attack in l2. Rony et al. 2019, arXiv:1811.09600.

    Attributes:
        initial_norm: first distance from the clean input.
        gamma: proportion by which the distance falls after an adversarial point, and rises after another.
    """

    kind: ClassVar[str] = "ddn"
    implementation: ClassVar[str] = "robench.attacks.fmn_impl:ddn"
    norms: ClassVar[tuple[SearchNorm, ...]] = ("l2",)

    norm: SearchNorm = "l2"
    initial_norm: Annotated[float, Gt(0), Le(LARGEST)] = 1.0
    gamma: Annotated[float, Gt(0), Lt(1)] = 0.05
