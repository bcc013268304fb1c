"""Declaration of Carlini and Wagner's minimum-norm attack in l2."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.base import Count
from robench.attacks.minimum_norm import MinimumNormAttack
from robench.core.declared import DatasetDeclaration
from robench.declarations.base import LARGEST, FieldProblem
from robench.domains import DOMAINS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cw(MinimumNormAttack):
    """Minimum-norm attack by Carlini and Wagner in l2. Carlini & Wagner 2017, arXiv:1608.04644.

    Attributes:
        num_steps: number of Adam steps per search; ``learning_rate``: step size in the transformed variables.
        num_search_steps: number of searches, each with a different weight c of the margin: times ten until one
            succeeds, then bisection between failure and success; ``initial_c``: the first weight.
        confidence: margin by which another class's logit must exceed the label's.
        stops_early: whether a search ends once one of its ten checks finds less than 0.01 % progress, per example.
        continues: whether a search continues from the end of the previous one, with Adam's averages (cleverhans),
            instead of starting from the clean input (the authors).
        target: any class ``other`` than the label; or the label itself (``own``), which is not an attack, but the
            behaviour of cleverhans when called with targeted=True and no classes.
        clip_min, clip_max: limits of values in the attack's space, to which the clean input is clipped first, as
            cleverhans with 0 and 1 does with normalised images. None for the limits of ``clip``.
    """

    kind: ClassVar[str] = "cw"
    implementation: ClassVar[str] = "robench.attacks.cw_impl:cw"
    length_field: ClassVar[str | None] = "num_steps"

    num_steps: Count
    num_search_steps: Count
    initial_c: Annotated[float, Gt(0), Le(LARGEST)]
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    confidence: Annotated[float, Ge(0), Le(LARGEST)] = 0.0
    stops_early: bool = True
    continues: bool = False
    target: Literal["other", "own"] = "other"
    clip_min: Annotated[float | None, Ge(-LARGEST), Le(LARGEST)] = None
    clip_max: Annotated[float | None, Ge(-LARGEST), Le(LARGEST)] = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """Return the limits that the clean input and all points are clipped to first."""
        return None if self.clip_min is None or self.clip_max is None else (self.clip_min, self.clip_max)

    def problems_on(self, dataset: DatasetDeclaration) -> list[FieldProblem]:
        """Return why the attack cannot be applied to a dataset, such as limits that would move its padding."""
        problems = MinimumNormAttack.problems_on(self, dataset)
        if self.limits is not None and dataset.domain in DOMAINS and DOMAINS[dataset.domain].is_padded:
            message = f"must be left out on {dataset.name}, whose inputs ({dataset.domain}) have padding"
            problems.append(("clip_min", f"{message}, got {self.clip_min}"))
        return problems

    @property
    def most_passes(self) -> tuple[int, int]:
        """Return the passes of all steps: one gradient per step."""
        num_gradients = self.num_search_steps * self.num_steps
        return num_gradients, num_gradients

    @property
    def seeks_label(self) -> bool:
        """Return whether a point succeeds if the model predicts the label."""
        return self.target == "own"

    def distance_problem(self) -> str:
        """Return why the attack's distances cannot be interpreted; empty if they can."""
        if problem := MinimumNormAttack.distance_problem(self):
            return problem
        if self.confidence > 0:
            return "with confidence above 0, which requires more than misclassification"
        return "" if self.clip_min is None else "with clip_min and clip_max, which change the clean input"

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: limits, target and continued searches must be consistent."""
        problems: list[FieldProblem] = []
        if (self.clip_min is None) != (self.clip_max is None):
            problems.append(("", "clip_min and clip_max must be given together, got one of them"))
        elif self.clip_min is not None and self.clip_max is not None:
            if self.clip_min >= self.clip_max:
                problems.append(("clip_min", f"must be below clip_max {self.clip_max}, got {self.clip_min}"))
            if self.clip == "box":
                problems.append(("clip", "must be none with clip_min and clip_max, got box"))
        if self.target == "own" and self.labels == "true":
            problems.append(("labels", "must be predicted with target own, which is the victim's own class, got true"))
        if self.continues and self.stops_early:
            problems.append(("stops_early", "must be false if searches continue the previous one, got true"))
        return problems
