"""Declaration of the fast adaptive boundary attack, a minimum-norm attack."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.attacks.base import Count, Norm, Stop
from robench.attacks.minimum_norm import MinimumNormAttack
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Fab(MinimumNormAttack):
    """Fast adaptive boundary attack, a minimum-norm attack. Croce & Hein 2020, arXiv:1907.02044.

    Attributes:
        norm: norm that is minimised.
        num_steps: number of steps per search.
        num_targets: None, to step onto the nearest of all boundaries (K - 1 gradients per step for K classes); or the
            number of classes searched separately, from the second highest clean logit down (one gradient per step).
        num_restarts: number of searches per target; the first starts at the clean input, later ones at random points
            around it.
        epsilon: later searches start within half of it, or of the distance found so far if that is smaller.
        stop: search to the end (``never``), or stop early once an example is fooled within ``epsilon``
            (``at_success``), as AutoAttack does between searches.
        alpha_max: maximum weight of the step that starts from the clean input instead of from the current point.
        eta: overshooting of the boundary, 1 for none.
        beta: factor of the backward step: the fraction of its distance from the clean input that an adversarial point
            keeps.
        num_final_steps: number of steps of the linear search between the clean input and the nearest point; 0 in
            AutoAttack's code.
    """

    kind: ClassVar[str] = "fab"
    implementation: ClassVar[str] = "robench.attacks.fab_impl:fab"
    length_field: ClassVar[str | None] = "num_steps"

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
        """Return the norm that is minimised."""
        return self.norm

    @property
    def most_passes(self) -> tuple[int, int] | None:
        """Return the passes of all searches: a gradient and a prediction per step and target; None without targets."""
        if self.num_targets is None:
            return None
        num_gradients = self.num_restarts * self.num_targets * self.num_steps
        return 2 * num_gradients + self.num_final_steps, num_gradients

    def problems_with_classes(self, num_classes: int, where: str) -> list[FieldProblem]:
        """Return why the attack needs more classes: another one for each target."""
        if self.num_targets is None or self.num_targets < num_classes:
            return MinimumNormAttack.problems_with_classes(self, num_classes, where)
        return [("num_targets", f"must be at most {num_classes - 1} {where}, got {self.num_targets}")]

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: restarts and early stopping need an epsilon."""
        if self.epsilon is not None:
            return []
        problems = []
        if self.num_restarts > 1:
            problems.append(("epsilon", f"must be given with num_restarts above 1, got {self.num_restarts}"))
        if self.stop == "at_success":
            problems.append(("epsilon", "must be given with stop at_success"))
        return problems
