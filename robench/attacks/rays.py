"""Declaration of RayS, a hard-label attack: search over signs of the change."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.attacks.base import Count
from robench.attacks.minimum_norm import MinimumNormAttack, SearchNorm
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Rays(MinimumNormAttack):
    """RayS: hard-label attack that searches for the signs of a change, in l-infinity, without random numbers.

    Chen & Gu 2020, arXiv:2006.12792; published with 10,000 queries on CIFAR-10.

    Attributes:
        num_queries: number of forward passes of an example, beside those of clean and final prediction.
        tolerance: error of the radius at which a binary search ends, as the l2 length of the change (authors' code).
    """

    kind: ClassVar[str] = "rays"
    implementation: ClassVar[str] = "robench.attacks.rays_impl:rays"
    sees_labels_alone: ClassVar[bool] = True
    needs_limits: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_queries"

    num_queries: Count
    tolerance: Annotated[float, Gt(0), Le(LARGEST)] = 1e-3

    @property
    def search_norm(self) -> SearchNorm:
        """Return the norm that is minimised."""
        return "linf"

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all queries, and no gradient."""
        return self.num_queries, 0
