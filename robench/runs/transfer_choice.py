"""Choice of a transfer: an attack at one budget, between models with the same resize and crop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from robench.core.errors import UnknownNameError, UsageError
from robench.core.suite import views_of
from robench.declarations.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.core.declared import Declaration
    from robench.core.suite import Suite, View


def choose(suite: Suite, name: str) -> View:
    """Return the attack called ``name`` in a suite; the name of a sweep selects its largest budget.

    Budgets are compared as numbers, so that ``pgd@2/85`` is ``pgd@6/255``.

    Raises:
        UnknownNameError: the suite has no such condition.
        UsageError: the condition is not an attack.
    """
    views = {view.name: view for condition in suite.conditions for view in views_of(condition)}
    largest = {condition.name: views_of(condition)[-1] for condition in suite.conditions}
    named = views | largest
    by_value = {f"{view.condition.name}@{view.epsilon}": view for view in views.values() if view.epsilon is not None}
    found = named.get(name) or by_value.get(_with_reduced_budget(name))
    if found is None:
        raise UnknownNameError(f"condition of suite {suite.name!r}", name, named)
    if not found.attack.makes_inputs:
        attacks = [each.name for each in suite.conditions if each.perturbation.makes_inputs]
        raise UsageError(
            f"condition {name!r} of suite {suite.name!r} leaves images unchanged, so that nothing is transferred; "
            f"choose an attack: {', '.join(attacks) or 'this suite has none'}"
        )
    return found


def check_same_pixels(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse models with different resize or crop; mean and std may differ.

    Raises:
        UsageError: two models resize or crop differently.
    """
    first, *others = checkpoints
    for other in others:
        if _pixels_of(other.preprocessing) != _pixels_of(first.preprocessing):
            raise UsageError(
                f"model {other.name!r} sees other pixels than {first.name!r} ({_shown(other)} against "
                f"{_shown(first)}); adversarial images are made after resize and crop, so that both "
                "must be the same; leave one out"
            )


def _with_reduced_budget(name: str) -> str:
    condition, at, budget = name.rpartition("@")
    try:
        return f"{condition}@{Fraction(budget)}" if at else name
    except (ValueError, ZeroDivisionError):
        return name


def _pixels_of(preprocessing: Declaration) -> Declaration:
    if not isinstance(preprocessing, ImagePreprocessing):
        return preprocessing
    return replace(preprocessing, mean=(), std=())


def _shown(checkpoint: Checkpoint) -> str:
    preprocessing = checkpoint.preprocessing
    if not isinstance(preprocessing, ImagePreprocessing):
        return preprocessing.kind
    sizes = [("resize", preprocessing.resize), ("crop", preprocessing.crop)]
    said = [f"{name} {size}" if size is not None else f"no {name}" for name, size in sizes]
    return ", ".join([*said, preprocessing.interpolation])
