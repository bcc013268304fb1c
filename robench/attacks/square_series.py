"""Declaration of the Square attack's form for time series: random search by windows of time."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from robench.attacks.base import Count, Loss, Norm, SearchingAttack
from robench.declarations.base import FieldProblem
from robench.domains.series import SERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareSeries(SearchingAttack):
    """Random search that changes a window of time in some channels at a time, without gradients.

    After the Square attack on images. Andriushchenko et al. 2020, arXiv:1912.00049.

    Attributes:
        num_queries: number of forward passes per search, including that of the first point.
        p_init: proportion of a series' values that the first windows cover; it decreases during the search as in
            ``square``, with the schedule rescaled to ``num_queries``.
        loss: loss to maximise.
    """

    kind: ClassVar[str] = "square-series"
    implementation: ClassVar[str] = "robench.attacks.square_series_impl:square_series"
    is_gradient_free: ClassVar[bool] = True
    needed_axes: ClassVar[tuple[str, ...]] = SERIES.axes
    norms: ClassVar[tuple[Norm, ...]] = ("linf",)
    version: ClassVar[int] = 1

    num_queries: Count
    p_init: Annotated[float, Gt(0), Le(1)]
    loss: Loss = "margin"

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all trials: one query per trial, and no gradient."""
        return self.num_restarts * self.num_queries, 0

    def contradictions(self) -> list[FieldProblem]:
        """Refuse returns last, since half of the trials of a random search are worse than its best point."""
        problems = SearchingAttack.contradictions(self)
        if self.returns == "last":
            problems.append(("returns", "must be best for square-series, whose last trial may be its worst, got last"))
        return problems
