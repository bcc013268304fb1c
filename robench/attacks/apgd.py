"""Declaration of auto-PGD: gradient ascent with adaptive step sizes."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.attacks.base import GradientAscent, Norm
from robench.declarations.base import FieldProblem

ApgdLoss = Literal["ce", "margin", "dlr", "dlr-targeted", "objective"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apgd(GradientAscent):
    """Auto-PGD. Croce & Hein 2020, arXiv:2003.01690, Algorithm 1; in l1 Croce & Hein 2021, arXiv:2103.01208.

    Attributes:
        loss: loss to maximise. With ``dlr-targeted`` each restart targets one other class, in the order of the clean
            logits, so that ``num_restarts`` is the number of targets; after the last class it cycles.
        radii: radius schedule of an l1 search, ``constant`` or ``shrinking``: 3 epsilon for 30 % of the steps, 2
            epsilon for 30 %, and epsilon for the rest; only points of the last phase are kept.
    """

    kind: ClassVar[str] = "apgd"
    implementation: ClassVar[str] = "robench.attacks.apgd_impl:apgd"
    is_iterated: ClassVar[bool] = True
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2", "l1")
    published_stop: ClassVar[Literal["never"]] = "never"

    loss: ApgdLoss = "ce"
    radii: Literal["constant", "shrinking"] = "constant"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: shrinking radii need norm l1 and enough steps for three phases."""
        problems = GradientAscent.contradictions(self)
        if self.radii == "shrinking" and self.norm != "l1":
            problems.append(
                ("radii", f"must be constant for norm {self.norm}: shrinking ones exist in l1 alone, got shrinking")
            )
        if self.radii == "shrinking" and self.num_steps < 3:
            problems.append(("num_steps", f"must be at least 3 with radii shrinking, got {self.num_steps}"))
        return problems
