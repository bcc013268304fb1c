"""Conditions with minimum-norm attacks: checks of the distances at which their accuracy is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.suite import Distance
from robench.perturbations import PERTURBATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.suite import Condition


def distances_of(condition: Condition) -> tuple[Distance, ...]:
    """Return the distances of a condition, in its attack's norm; none except for minimum-norm attacks."""
    norm = condition.perturbation.search_norm
    return () if norm is None else tuple(Distance(norm=norm, value=value) for value in condition.distances)


def distance_problems(condition: Condition) -> Iterator[str]:
    """Yield the problems of a condition's distances, if it has any."""
    if not condition.distances:
        return
    if not condition.perturbation.is_minimum_norm:
        able = ", ".join(kind for kind, declared in PERTURBATIONS.loaded() if declared.is_minimum_norm)
        yield f"must be left out for {condition.perturbation.kind}: only minimum-norm attacks ({able}) have some"
        return
    if wrong := condition.perturbation.distance_problem():
        yield f"must be left out for an attack {wrong}"
    shown = [str(distance) for distance in distances_of(condition)]
    for twice in dict.fromkeys(each for each in shown if shown.count(each) > 1):
        yield f"must differ as displayed, got {twice} twice"
