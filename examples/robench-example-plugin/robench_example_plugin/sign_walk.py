"""Declaration of a sign walk with halved steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.attacks.base import Count, Loss, SearchingAttack
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class SignWalk(SearchingAttack):
    """Steps along the signs of the gradient, the first of length epsilon / 2 and each half as long as the last.

    Attributes:
        num_steps: steps of the walk.
        loss: loss that the walk increases.
    """

    kind: ClassVar[str] = "sign-walk"
    implementation: ClassVar[str] = "robench_example_plugin.sign_walk_impl:sign_walk"
    is_iterated: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_steps"
    version: ClassVar[int] = 1

    num_steps: Count
    loss: Loss = "ce"

    def contradictions(self) -> list[FieldProblem]:
        """Refuse restarts, which would all start at the clean input."""
        problems = SearchingAttack.contradictions(self)
        if self.num_restarts > 1:
            problems.append(("num_restarts", f"must be 1, since the walk draws nothing, got {self.num_restarts}"))
        return problems
