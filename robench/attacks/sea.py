"""Declaration of the segmentation ensemble attack: auto-PGD with three losses, whose worst point counts."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attacks.apgd import Apgd, ApgdLoss
from robench.attacks.base import BoundedAttack, Count
from robench.declarations.base import FieldProblem

LOSSES: tuple[ApgdLoss, ...] = ("balanced-ce", "masked-ce", "js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sea(BoundedAttack):
    """Segmentation ensemble attack (SEA). Croce, Singh & Hein 2024, arXiv:2306.12941 version 2.

    Its members are APGD with the losses ``balanced-ce``, ``masked-ce`` and ``js`` and shrinking radii. As one
    perturbation it returns the point with the fewest right pixels, image by image, which is the worst case of pixel
    accuracy. That of mean IoU is chosen over all images: list the members as conditions, and report
    ``robust_mean_iou``.

    Attributes:
        num_steps: number of steps of each member, 300 in the paper's code; 30 % within 2 epsilon, 30 % within 1.5
            epsilon.
        num_draws: number of forward passes averaged in a gradient, for victims that draw random numbers.
    """

    kind: ClassVar[str] = "sea"
    implementation: ClassVar[str] = "robench.attacks.sea_impl:sea"
    # A new version of APGD is one of this.
    version: ClassVar[int] = Apgd.version - 1
    is_iterated: ClassVar[bool] = True
    length_field: ClassVar[str | None] = "num_steps"

    num_steps: Count = 300
    num_draws: Count = 1

    @property
    def attacks(self) -> tuple[Apgd, ...]:
        """Return the members, as they are listed as conditions of their own."""
        return tuple(
            Apgd(
                epsilon=self.epsilon,
                space=self.space,
                clip=self.clip,
                labels=self.labels,
                gradients=self.gradients,
                loss=loss,
                radii="shrinking",
                num_steps=self.num_steps,
                num_draws=self.num_draws,
            )
            for loss in LOSSES
        )

    @property
    def loss(self) -> str:
        """Return the loss of the first member: tasks that have it have all of them."""
        return LOSSES[0]

    @property
    def drawn_as(self) -> str:
        """Return the kind of the members, so that they start where they start as conditions of their own."""
        return Apgd.kind

    @property
    def most_passes(self) -> tuple[int, int]:
        """Sum the passes of the members."""
        passes = [each.most_passes for each in self.attacks]
        return sum(forward for forward, _ in passes), sum(backward for _, backward in passes)

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: the radii need enough steps for three phases."""
        problems = BoundedAttack.contradictions(self)
        if self.num_steps < 3:
            problems.append(("num_steps", f"must be at least 3 for {self.kind}, got {self.num_steps}"))
        return problems
