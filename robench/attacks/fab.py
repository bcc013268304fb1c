"""The fast adaptive boundary attack, which looks for the nearest adversarial example."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.attacks.base import Count, MinimumNormAttack, Norm, Stop
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Fab(MinimumNormAttack):
    """Fast adaptive boundary attack. Croce & Hein 2020, arXiv:1907.02044.

    Attributes:
        norm: in which the nearest is meant.
        num_steps: of one search.
        num_targets: None, to step onto the nearest of all boundaries (K - 1 gradients a step for K classes); or
            how many classes get a search of their own, from the second highest clean logit down (one gradient a step).
        num_restarts: searches of each kind; the first begins at the clean input, later ones at random points around it.
        epsilon: later searches begin within half of it, or of the distance found so far where that is less.
        stop: search on for the nearest (``never``), or leave an example alone once it is fooled within ``epsilon``
            (``at_success``), as AutoAttack does between searches.
        alpha_max: largest share of the step that starts from the clean input instead of from the current point.
        eta: overshooting of the boundary, 1 for none.
        beta: share of its way that a point keeps which is adversarial: steps back toward the clean input.
        num_final_steps: of a linear search between the clean input and the nearest point; 0 in AutoAttack's code.
    """

    kind: ClassVar[str] = "fab"
    implementation: ClassVar[str] = "robench.attacks.fab_impl:fab"

    norm: Norm = "linf"
    num_steps: Count
    num_targets: Annotated[int | None, Ge(1), Le(LARGEST)] = None
    num_restarts: Count = 1
    epsilon: Annotated[Fraction | None, Ge(0), Le(LARGEST)] = None
    stop: Stop = "never"
    alpha_max: Annotated[float, Gt(0), Le(1)] = 0.1
    eta: Annotated[float, Ge(1), Le(LARGEST)] = 1.05
    beta: Annotated[float, Gt(0), Lt(1)] = 0.9
    num_final_steps: Annotated[int, Ge(0), Le(LARGEST)] = 3

    @property
    def search_norm(self) -> Norm:
        """Norm in which the nearest is meant."""
        return self.norm

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """A gradient and a prediction a step and target, and the final search; of no targets only the classes tell."""
        if self.num_targets is None:
            return None
        num_gradients = self.num_restarts * self.num_targets * self.num_steps
        return 2 * num_gradients + self.num_final_steps, num_gradients

    def contradictions(self) -> list[FieldProblem]:
        """What needs an epsilon to be given one."""
        if self.epsilon is not None:
            return []
        problems = []
        if self.num_restarts > 1:
            problems.append(("epsilon", f"must be given with num_restarts above 1, got {self.num_restarts}"))
        if self.stop == "at_success":
            problems.append(("epsilon", "must be given with stop at_success"))
        return problems
