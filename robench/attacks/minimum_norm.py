"""Base classes of minimum-norm attacks, which search for the nearest adversarial example."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.attacks.base import Attack, Count
from robench.attacks.local import pixel_problems
from robench.core.budgets import Support
from robench.core.declared import DatasetDeclaration
from robench.declarations.base import LARGEST, FieldProblem
from robench.declarations.supports import L0

SearchNorm = Literal["linf", "l2", "l1", "l0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumNormAttack(Attack):
    """Attack without a budget, which minimises the distance to the clean input in ``search_norm``."""

    is_minimum_norm: ClassVar[bool] = True

    @property
    def search_norm(self) -> SearchNorm:
        """Return the norm that is minimised."""
        return "l2"

    @property
    def limits(self) -> tuple[float, float] | None:
        """Return the limits that the clean input and all points are clipped to first; None for none."""
        return None

    @property
    def seeks_label(self) -> bool:
        """Return whether a point succeeds if the model predicts the label, instead of another class."""
        return False

    def distance_problem(self) -> str:
        """Return why the attack's distances cannot be interpreted, such as ``with ...``; empty if they can."""
        if self.labels == "predicted":
            return "with labels predicted, whose distances do not refer to the true classes"
        if self.backend != "robench":
            return f"with backend {self.backend}, which also moves misclassified examples"
        if self.stops_at_success:
            return "with stop at_success, which stops before the minimum is found"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormSearch(MinimumNormAttack):
    """Minimum-norm attack in one of several norms.

    Attributes:
        norms: supported norms.
        norm: norm that is minimised; ``l0`` counts changes.
        unit: what ``l0`` counts: ``values`` of any input, or ``pixels`` of images with all their channels.
        num_restarts: number of searches; the nearest point of all is returned.
    """

    norms: ClassVar[tuple[SearchNorm, ...]] = ("linf",)

    norm: SearchNorm = "linf"
    unit: Literal["values", "pixels"] = "values"
    num_restarts: Count = 1

    @property
    def search_norm(self) -> SearchNorm:
        """Return the norm that is minimised."""
        return self.norm

    @property
    def counted(self) -> Support | None:
        """Return the places whose changes are counted, in l0; None in other norms."""
        return L0(count=LARGEST, unit=self.unit) if self.norm == "l0" else None

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: the norm must be supported, and only l0 counts pixels."""
        problems: list[FieldProblem] = []
        if self.norm not in self.norms:
            problems.append(("norm", f"must be {' or '.join(self.norms)} for {self.kind}, got {self.norm}"))
        if self.unit != "values" and self.norm != "l0":
            problems.append(("unit", f"must be left out with norm {self.norm}, got {self.unit}"))
        return problems

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset: pixels are those of images."""
        return pixel_problems("unit", self.unit == "pixels", dataset) or MinimumNormAttack.problems_on(self, dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class NormDescent(NormSearch):
    """Minimum-norm attack with one gradient a step.

    Attributes:
        num_steps: number of steps of one search.
    """

    length_field: ClassVar[str | None] = "num_steps"

    num_steps: Count

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all steps: one gradient per step."""
        num_gradients = self.num_restarts * self.num_steps
        return num_gradients, num_gradients
