"""Declaration of primal-dual proximal gradient descent, a minimum-norm attack."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.attacks.minimum_norm import NormDescent, SearchNorm
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Pdpgd(NormDescent):
    """Primal-dual proximal gradient descent in l1, l2 or l-infinity. Matyasko & Chau 2021, arXiv:2106.01538.

    Attributes:
        step_size: first step of Adam; it falls exponentially to a hundredth.
        dual_step_size: first step of the weight of the margin; it falls linearly to a tenth.
    """

    kind: ClassVar[str] = "pdpgd"
    implementation: ClassVar[str] = "robench.attacks.pdpgd_impl:pdpgd"
    norms: ClassVar[tuple[SearchNorm, ...]] = ("linf", "l2", "l1")

    step_size: Annotated[float, Gt(0), Le(LARGEST)] = 0.1
    dual_step_size: Annotated[float, Gt(0), Le(LARGEST)] = 0.1
