"""Carlini and Wagner's attack, which looks for the nearest adversarial example in l2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from robench.attacks.base import Count, MinimumNormAttack
from robench.declarations.base import LARGEST, FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Cw(MinimumNormAttack):
    """Carlini and Wagner's l2 attack. Carlini & Wagner 2017, arXiv:1608.04644.

    Attributes:
        num_steps: of Adam in one search; ``learning_rate``: its step size, in the variables that are searched.
        num_search_steps: searches, each with another weight c of the margin against the distance: ten times as much
            until one succeeds, halfway between what failed and what succeeded then; ``initial_c``: the first.
        confidence: by how much another class's logit must lead.
        stops_early: a search ends where ten checks a search see no progress of 0.01 %, for each example alone.
        continues: a search goes on from where the one before ended, with Adam's averages (cleverhans), instead of from
            the clean input (the authors).
        target: any ``other`` class than the label; or the label itself (``own``), which is no attack, but is what
            cleverhans does when it is called with targeted=True and no classes.
        clip_min, clip_max: points have values between these in the attack's space, the clean input cut to them first:
            what cleverhans' 0 and 1 make of normalised images. None for the limits that ``clip`` sets.
    """

    kind: ClassVar[str] = "cw"
    implementation: ClassVar[str] = "robench.attacks.cw_impl:cw"

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
        """Values that the clean input is cut to first, and all points with it."""
        return None if self.clip_min is None or self.clip_max is None else (self.clip_min, self.clip_max)

    @property
    def most_passes(self) -> tuple[int, int]:
        """One gradient a step."""
        num_gradients = self.num_search_steps * self.num_steps
        return num_gradients, num_gradients

    @property
    def seeks_label(self) -> bool:
        """Whether a point succeeds where the model predicts the label."""
        return self.target == "own"

    def distance_problem(self) -> str:
        """Return what keeps the attack from telling how far examples are from falling."""
        if problem := MinimumNormAttack.distance_problem(self):
            return problem
        if self.confidence > 0:
            return "with confidence above 0, which looks for more than a wrong class"
        return "" if self.clip_min is None else "with clip_min and clip_max, which change the clean input"

    def contradictions(self) -> list[FieldProblem]:
        """Limits in pairs and not twice; own classes only of who predicted them; no going on after an early stop."""
        problems: list[FieldProblem] = []
        if (self.clip_min is None) != (self.clip_max is None):
            problems.append(("", "clip_min and clip_max must be given together, got one of them"))
        elif self.clip_min is not None and self.clip_max is not None:
            if self.clip_min >= self.clip_max:
                problems.append(("clip_min", f"must be below clip_max {self.clip_max}, got {self.clip_min}"))
            if self.clip == "box":
                problems.append(("clip", "must be none where clip_min and clip_max say what to cut to, got box"))
        if self.target == "own" and self.labels == "true":
            problems.append(("labels", "must be predicted with target own, which is the victim's own class, got true"))
        if self.continues and self.stops_early:
            problems.append(("stops_early", "must be false where a search continues the one before, got true"))
        return problems
