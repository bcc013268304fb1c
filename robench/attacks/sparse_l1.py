"""Declaration of sparse l1 descent."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.attacks.base import GradientAscent, Loss, Norm
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseL1(GradientAscent):
    """Projected ascent in l1 with steps along the largest gradients only. Tramer & Boneh 2019, arXiv:1904.13000.

    Attributes:
        step_size: l1 length of a step.
        sparsity: proportion of the coordinates that a step leaves unchanged, those of smallest gradient; 0.99 in the
            papers.
        projection: projection onto the budget: the nearest point (``exact``), or scaling of the change (``rescale``, as
            in cleverhans).
        random_start: whether to start at a random point of the ball instead of the clean input.
        loss: loss to maximise.
    """

    kind: ClassVar[str] = "sparse-l1"
    implementation: ClassVar[str] = "robench.attacks.sparse_l1_impl:sparse_l1"
    budget_fields: ClassVar[tuple[str, ...]] = ("epsilon", "step_size")
    norms: ClassVar[tuple[Norm, ...]] = ("l1",)

    norm: Norm = "l1"
    step_size: Annotated[Fraction, Gt(0), Le(LARGEST)]
    sparsity: Annotated[float, Ge(0), Lt(1)]
    projection: Literal["exact", "rescale"] = "exact"
    random_start: bool = False
    loss: Loss = "ce"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: steps are at most the budget, and restarts need random starts."""
        problems = GradientAscent.contradictions(self)
        if self.epsilon and self.step_size > self.epsilon:
            problems.append(("step_size", f"must be at most epsilon {self.epsilon}, got {self.step_size}"))
        if self.num_restarts > 1 and not self.random_start:
            problems.append(("num_restarts", f"must be 1 without random_start, got {self.num_restarts}"))
        return problems
