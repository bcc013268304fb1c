"""Declaration of HopSkipJump, a hard-label attack: estimates of the boundary's normal from classes alone."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.attacks.base import Count
from robench.attacks.minimum_norm import NormSearch, SearchNorm
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class HopSkipJump(NormSearch):
    """HopSkipJump: hard-label attack with gradient directions estimated at the boundary, in l2 or l-infinity.

    Chen, Jordan & Wainwright 2020, arXiv:1904.02144.

    Attributes:
        num_queries: number of forward passes of a search, beside those of clean and final prediction. A step whose
            estimate needs more than are left is not begun.
        initial_evaluations: number of samples of the first estimate, the root of the step's number times as many later.
        max_evaluations: largest number of samples of one estimate.
        gamma: factor of the error of binary searches, gamma / D^(3/2) in l2 and gamma / D^2 in linf for D values, and
            of the samples' distance from the boundary, which follows from it.
    """

    kind: ClassVar[str] = "hop-skip-jump"
    implementation: ClassVar[str] = "robench.attacks.hop_skip_jump_impl:hop_skip_jump"
    sees_labels_alone: ClassVar[bool] = True
    needs_limits: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_queries"
    norms: ClassVar[tuple[SearchNorm, ...]] = ("l2", "linf")

    norm: SearchNorm = "l2"
    num_queries: Count
    initial_evaluations: Count = 100
    max_evaluations: Count = 10_000
    gamma: Annotated[float, Gt(0), Le(LARGEST)] = 1.0

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all queries, and no gradient."""
        return self.num_restarts * self.num_queries, 0

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: the norm must be supported, and estimates do not shrink."""
        problems = NormSearch.contradictions(self)
        if self.max_evaluations < self.initial_evaluations:
            wanted = f"must be at least initial_evaluations {self.initial_evaluations}"
            problems.append(("max_evaluations", f"{wanted}, got {self.max_evaluations}"))
        return problems
