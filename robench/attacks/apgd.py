"""Auto-PGD: gradient ascent whose step sizes need no choosing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from robench.attacks.base import Count, Norm, SearchingAttack

if TYPE_CHECKING:
    from robench.declarations.base import FieldProblem


ApgdLoss = Literal["ce", "margin", "dlr", "dlr-targeted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apgd(SearchingAttack):
    """Auto-PGD. Croce & Hein 2020, arXiv:2003.01690, Algorithm 1; in l1 Croce & Hein 2021, arXiv:2103.01208.

    Attributes:
        num_steps: steps of one search, which begins at random points of the budget's ball.
        loss: what is to rise. With ``dlr-targeted`` each restart goes for one other class, in the order of the clean
            logits, so that ``num_restarts`` is the number of targets; past the last class they begin again.
        radii: of an l1 search, ``constant``, or ``shrinking``: 3 epsilon for 30 % of the steps, 2 epsilon for 30 %, and
            epsilon for the rest, of which alone points are kept.
        num_draws: passes that a gradient is the mean over, for victims that draw.
    """

    kind: ClassVar[str] = "apgd"
    implementation: ClassVar[str] = "robench.attacks.apgd_impl:apgd"
    is_iterated: ClassVar[bool] = True
    can_warm_start: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_steps"
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")
    published_stop: ClassVar[Literal["never"]] = "never"

    num_steps: Count
    loss: ApgdLoss = "ce"
    radii: Literal["constant", "shrinking"] = "constant"
    num_draws: Count = 1

    @property
    def most_passes(self) -> tuple[int, int]:
        """One gradient a step."""
        num_gradients = self.num_restarts * self.num_steps * self.num_draws
        return num_gradients, num_gradients

    def contradictions(self) -> list[FieldProblem]:
        """Radii shrink in l1 alone, and over three phases."""
        problems = SearchingAttack.contradictions(self)
        if self.radii == "shrinking" and self.norm != "l1":
            problems.append(
                ("radii", f"must be constant for norm {self.norm}: shrinking ones are of l1, got shrinking")
            )
        if self.radii == "shrinking" and self.num_steps < 3:
            problems.append(("num_steps", f"must be at least 3 with radii shrinking, got {self.num_steps}"))
        return problems
