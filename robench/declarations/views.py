"""Views of a condition: the lists of outcomes that columns read, one for each budget of a sweep.

A column names views, a report joins the outcomes of each, and comparisons of attacks are between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robench.core.declared import PerturbationDeclaration
    from robench.core.suite import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """View of one list of outcomes.

    Attributes:
        name: the condition's, or for example ``pgd@4/255`` with the budget as written; in keys of columns.
        label: display name, with a budget in grey levels.
        epsilon: value of ``Outcome.epsilon``; None except for sweeps.
        attack: the perturbation, at one budget.
    """

    name: str
    label: str
    condition: Condition
    epsilon: str | None
    attack: PerturbationDeclaration


def views_of(condition: Condition) -> tuple[View, ...]:
    """Return the views of a condition: one per budget of a sweep, ascending; otherwise the condition itself."""
    declaration, name = condition.perturbation, condition.name
    if not declaration.at_budgets:
        return (View(name=name, label=name, condition=condition, epsilon=None, attack=declaration),)
    return tuple(
        View(
            name=f"{name}@{threat.epsilon_text}",
            label=f"{name} {threat.epsilon_text}",
            condition=condition,
            epsilon=attack.epsilon_name,
            attack=attack,
        )
        for attack in declaration.at_budgets
        if (threat := attack.threat_model) is not None
    )
