"""Declaration of auto-PGD: gradient ascent with adaptive step sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from robench.attacks.base import GradientAscent, Loss, Norm
from robench.declarations.base import FieldProblem

ApgdLoss = Literal[Loss, "dlr-targeted", "margin-targeted"]
# Shrinking radii before the last, over epsilon: of Croce & Hein 2021, and of Croce, Singh & Hein 2024 ("red-eps").
WIDER: Mapping[str, tuple[Fraction, ...]] = {
    "l1": (Fraction(3), Fraction(2)),
    "linf": (Fraction(2), Fraction(3, 2)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Apgd(GradientAscent):
    """Auto-PGD. Croce & Hein 2020, arXiv:2003.01690, Algorithm 1; in l1 Croce & Hein 2021, arXiv:2103.01208.

    Attributes:
        loss: loss to maximise. With ``dlr-targeted`` and ``margin-targeted`` each restart targets one other class, in
            the order of the clean logits, so that ``num_restarts`` is the number of targets; after the last class it
            cycles. The latter is the difference of two logits, and needs two classes alone.
        radii: radius schedule of a search, ``constant`` or ``shrinking``: 3 epsilon in l1 and 2 epsilon in linf for 30
            % of the steps, 2 and 1.5 epsilon for 30 %, and epsilon for the rest, where alone points are kept.
    """

    kind: ClassVar[str] = "apgd"
    implementation: ClassVar[str] = "robench.attacks.apgd_impl:apgd"
    is_iterated: ClassVar[bool] = True
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")
    published_stop: ClassVar[Literal["never"]] = "never"

    loss: ApgdLoss = "ce"
    radii: Literal["constant", "shrinking"] = "constant"

    @property
    def is_targeted(self) -> bool:
        """Return whether each restart targets one class."""
        return self.loss.endswith("-targeted")

    def problems_with_classes(self, num_classes: int, where: str) -> list[FieldProblem]:
        """Return why the attack needs more classes: its loss, or another one for each target of a library's."""
        if problems := GradientAscent.problems_with_classes(self, num_classes, where):
            return problems
        if self.backend == "robench" or not self.is_targeted or self.num_restarts < num_classes:
            return []
        wanted = f"must be at most {num_classes - 1} {where}, with backend {self.backend}"
        return [("num_restarts", f"{wanted}, got {self.num_restarts}")]

    @property
    def wider(self) -> tuple[Fraction, ...]:
        """Return the radii of the phases before the last one, over epsilon."""
        return WIDER[self.norm] if self.radii == "shrinking" else ()

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: shrinking radii need norm l1 or linf, and enough steps for three phases."""
        problems = GradientAscent.contradictions(self)
        if self.radii == "shrinking" and self.norm not in WIDER:
            problems.append(
                ("radii", f"must be constant for norm {self.norm}: shrinking ones exist in l1 and linf, got shrinking")
            )
        elif self.radii == "shrinking" and self.norm != "l1" and self.backend != "robench":
            wanted = f"must be constant for norm {self.norm} with backend {self.backend}"
            problems.append(("radii", f"{wanted}, whose shrinking ones are of l1, got shrinking"))
        if self.radii == "shrinking" and self.num_steps < 3:
            problems.append(("num_steps", f"must be at least 3 with radii shrinking, got {self.num_steps}"))
        return problems
