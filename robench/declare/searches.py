"""Conditions that search for the nearest adversarial example: what can be read off them, and at which distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.suite import Distance
from robench.declarations.attack_base import Attack
from robench.declarations.cw_attack import Cw
from robench.declarations.perturbations import search_norm_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.suite import Condition


def distances_of(condition: Condition) -> tuple[Distance, ...]:
    """Return the distances that a condition states, in its attack's norm; none but of attacks without a budget."""
    norm = search_norm_of(condition.perturbation)
    return () if norm is None else tuple(Distance(norm=norm, value=value) for value in condition.distances)


def distance_problems(condition: Condition) -> Iterator[str]:
    """Yield what is wrong with the distances that a condition states, if it states any."""
    if not condition.distances:
        return
    if search_norm_of(condition.perturbation) is None:
        yield f"must be left out for {condition.perturbation.kind}: only attacks without a budget (cw, fab) have some"
        return
    if wrong := search_problem(condition):
        yield f"must be left out for an attack {wrong}"
    shown = [str(distance) for distance in distances_of(condition)]
    for twice in dict.fromkeys(each for each in shown if shown.count(each) > 1):
        yield f"must differ as they are shown, got {twice} twice"


def search_problem(condition: Condition) -> str:
    """Return why a search does not tell how far each example that is right when clean is from falling, or nothing.

    See ``metrics.distances`` for what its numbers rely on.
    """
    attack = condition.perturbation
    if not isinstance(attack, Attack):
        return ""
    if attack.labels == "predicted":
        return "with labels predicted, whose distances say nothing of the true classes"
    if attack.backend != "robench":
        return f"with backend {attack.backend}, which moves what is wrong already"
    if getattr(attack, "stop", "never") == "at_success":
        return "with stop at_success, which leaves an example before its nearest is found"
    if isinstance(attack, Cw) and attack.confidence > 0:
        return "with confidence above 0, which looks for more than a wrong class"
    if isinstance(attack, Cw) and attack.clip_min is not None:
        return "with clip_min and clip_max, which change the clean input"
    return ""
