"""Declaration of projected gradient descent; suites state its strength.

Budgets and steps are in pixel units, images lie in [0, 1], unless ``space`` says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from annotated_types import Ge, Lt

from robench.attacks.base import SCHEDULED, Loss, Norm, StepSize, fields_but
from robench.attacks.local import AttentionTerm, LocalAscent
from robench.core.identity import Plain, to_plain
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgd(LocalAscent):
    """Projected gradient descent. Madry et al. 2018, arXiv:1706.06083.

    Attributes:
        step_size: length of a step; exactly one of this and ``relative_step`` must be given.
        relative_step: length of a step as a fraction of epsilon.
        random_start: whether to start at a random point of the ball instead of the clean input.
        momentum: weight of the last direction in the next one (Dong et al. 2018, arXiv:1710.06081); 0 for none.
        loss: loss to maximise.
        attention: loss on the weights of attention layers that is added to it; None for none.
    """

    kind: ClassVar[str] = "pgd"
    implementation: ClassVar[str] = "robench.attacks.pgd_impl:pgd"
    is_iterated: ClassVar[bool] = True
    follows_schedules: ClassVar[bool] = True
    budget_fields: ClassVar[tuple[str, ...]] = ("epsilon", "step_size")
    version: ClassVar[int] = 3
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")

    step_size: StepSize = None
    relative_step: StepSize = None
    random_start: bool = True
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    loss: Loss = "ce"
    attention: AttentionTerm | None = None

    @property
    def attention_term(self) -> AttentionTerm | None:
        """Return the loss on attention, if there is one."""
        return self.attention

    @classmethod
    def completed(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return the fields, with steps of a quarter of epsilon unless steps are given."""
        return given if "step_size" in given else {"relative_step": Fraction(1, 4), **given}

    @property
    def step_length(self) -> Fraction:
        """Return the length of a step in units of the space."""
        return self.step_size or (self.relative_step or Fraction(0)) * self.epsilon

    @property
    def per_budget(self) -> Plain:
        """Return kind, version and fields without the budget, and steps as a fraction of it however they are given."""
        fraction = self.step_length / self.epsilon if self.epsilon else self.relative_step
        return fields_but(self, "epsilon", "step_size", "relative_step") | {"relative_step": to_plain(fraction)}

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: exactly one step size, at most the budget; restarts need random starts."""
        problems = LocalAscent.contradictions(self)
        if (self.step_size is None) == (self.relative_step is None):
            found = "neither" if self.step_size is None else "both"
            problems.append(("", f"one of step_size and relative_step must be given, got {found}"))
        elif self.epsilon and self.step_length > self.epsilon:
            problems.append(("", f"a step must be at most epsilon {self.epsilon} long, got {self.step_length}"))
        if self.num_restarts > 1 and not self.random_start:
            problems.append(("num_restarts", f"must be 1 without random_start, got {self.num_restarts}"))
        if self.attention is not None and self.loss in SCHEDULED:
            problems.append(("attention", f"must be left out with loss {self.loss}, whose weights depend on the step"))
        return problems
