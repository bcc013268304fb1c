"""Sparse l1 descent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.attacks.base import Count, Loss, Norm, SearchingAttack
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseL1(SearchingAttack):
    """Projected ascent in l1 whose steps go along the largest gradients alone. Tramer & Boneh 2019, arXiv:1904.13000.

    Attributes:
        step_size: l1 length of a step.
        sparsity: share of the coordinates that a step leaves alone, those of smallest gradient; 0.99 in the papers.
        projection: back to the budget by the nearest point (``exact``), or by making the change shorter (``rescale``,
            as cleverhans does).
        random_start: begin at a random point of the budget, or at the clean input.
        loss: what is to rise. ``num_draws``: passes that a gradient is the mean over, for victims that draw.
    """

    kind: ClassVar[str] = "sparse-l1"
    implementation: ClassVar[str] = "robench.attacks.sparse_l1_impl:sparse_l1"
    can_warm_start: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_steps"
    budget_fields: ClassVar[tuple[str, ...]] = ("epsilon", "step_size")
    norms: ClassVar[tuple[Norm, ...]] = ("l1",)

    norm: Norm = "l1"
    num_steps: Count
    step_size: Annotated[Fraction, Gt(0), Le(LARGEST)]
    sparsity: Annotated[float, Ge(0), Lt(1)]
    projection: Literal["exact", "rescale"] = "exact"
    random_start: bool = False
    loss: Loss = "ce"
    num_draws: Count = 1

    @property
    def most_passes(self) -> tuple[int, int]:
        """One gradient a step."""
        num_gradients = self.num_restarts * self.num_steps * self.num_draws
        return num_gradients, num_gradients

    def contradictions(self) -> list[FieldProblem]:
        """No step above the budget; no restarts that would all begin at the clean input."""
        problems = SearchingAttack.contradictions(self)
        if self.epsilon and self.step_size > self.epsilon:
            problems.append(("step_size", f"must be at most epsilon {self.epsilon}, got {self.step_size}"))
        if self.num_restarts > 1 and not self.random_start:
            problems.append(("num_restarts", f"must be 1 without random_start, got {self.num_restarts}"))
        return problems
