"""Contradictions within stored outcomes, recognised without the model: rows, ids, distances and counts of any task.

A task adds its own by ``Task.consistency``; promises of a condition are checked where it is known. A seal is a checksum
and not a signature: an edited record can be sealed again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from robench.core.suite import views_of
from robench.declarations.base import imported
from robench.tasks.base import Broken, Scoring

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from robench.core.columns import Outcomes
    from robench.core.shard import ShardHeader
    from robench.core.suite import Condition, View
    from robench.tasks.base import Consistency, Task

DISTANCES = ("linf", "l2", "l1")
_LEAST = {"num_queries": 0, "num_gradients": 0, "num_changed": 0, "num_clamped": 1, "num_lost": 1, "num_cut": 1}
# Sums of squares round, and those of tiny numbers become 0.
ROUNDING = 1e-9
# That of the harness (``domains.real_valued``), which measured the distances.
BUDGET_TOLERANCE = 1e-6


def contradiction_of(
    task: Task,
    shard: ShardHeader,
    outcomes: Outcomes,
    condition: Condition | None = None,
    *,
    ids_are_known: bool = False,
) -> str:
    """Return the first contradiction within the outcomes of a shard, with its field, or an empty text.

    With the condition of the shard, promises of data and perturbation are checked too. ``ids_are_known`` says
    that the examples' ids have been compared with those of another record, and need not be counted.
    """
    return (
        _rows_problem(shard, outcomes, ids_are_known=ids_are_known)
        or ("" if condition is None else _budgets_problem(condition, shard, outcomes))
        or first_broken(outcomes, _broken(task, outcomes, condition))
    )


def _budgets_problem(condition: Condition, shard: ShardHeader, outcomes: Outcomes) -> str:
    """Return why budgets are not those of the condition, or inputs further away than they permit."""
    if shard.budget is not None and condition.budget is not None and not _is_same(shard.budget, condition.budget):
        return f"its budget is {shard.budget!r}, and that of condition {condition.name!r} is {condition.budget!r}"
    views = views_of(condition)
    wanted, budgets = [view.epsilon for view in views], outcomes.values("epsilon")
    found = [None] if budgets is None else budgets.array[: len(outcomes) // (shard.stop - shard.start)].tolist()
    if found != wanted:
        return f"its epsilon is {found}, and condition {condition.name!r} has {wanted}"
    parts = ((view, outcomes if len(views) == 1 else outcomes.at_budget(view.epsilon)) for view in views)
    return next((problem for view, part in parts if (problem := first_broken(part, _beyond(view, part)))), "")


def first_broken(outcomes: Outcomes, broken: Iterable[Broken]) -> str:
    """Return the first rule that a row breaks, with its field and example, or an empty text."""
    for each in broken:
        if each.rows.any():
            return f"its {each.field} of example {outcomes.ids[int(each.rows.argmax())]!r} {each.rule}"
    return ""


def _rows_problem(shard: ShardHeader, outcomes: Outcomes, *, ids_are_known: bool) -> str:
    """Return why rows are not those of the header's examples, each once, or at each budget of a sweep."""
    count, length = shard.stop - shard.start, len(outcomes)
    each = length // count
    if not length or length % count:
        return f"it has {length} rows, and from its start to its stop are {count} examples"
    ids, budgets = outcomes.ids, outcomes.values("epsilon")
    if budgets is None and each > 1:
        return f"it has {length} rows without epsilon, and from its start to its stop are {count} examples"
    if budgets is not None:
        if budgets.missing is not None:
            return "its epsilon is missing in some rows"
        grid, names = budgets.array.reshape(count, each), ids.reshape(count, each)
        if len(set(grid[0].tolist())) < each or not (grid == grid[0]).all() or not (names == names[:, :1]).all():
            return "its epsilon is not each budget once for each example_id"
        ids = names[:, 0]
    if not ids_are_known and len(set(ids.tolist())) < count:
        return "its example_id is the same for several examples"
    return ""


def _broken(task: Task, outcomes: Outcomes, condition: Condition | None) -> Iterator[Broken]:
    yield from _broken_distances(outcomes)
    for name, least in _LEAST.items():
        if outcomes.values(name) is not None:
            yield Broken(name, outcomes.filled(name, least) < least, f"is below {least}")
    if task.consistency is not None:
        scoring = None
        if condition is not None:
            scoring = Scoring(dataset=condition.dataset, keeps_scores=condition.perturbation.keeps_scores)
        consistency: Consistency = imported(task.consistency)
        yield from consistency(outcomes, scoring)


def _broken_distances(outcomes: Outcomes) -> Iterator[Broken]:
    smaller = None
    for name in DISTANCES:
        if outcomes.values(name) is None:
            continue
        length = outcomes.filled(name, 0.0)
        yield Broken(name, ~(np.isfinite(length) & (length >= 0)), "must be finite and at least 0")
        # Of one change each norm is at most the next.
        both = outcomes.known(name) if smaller is None else outcomes.known(name) & outcomes.known(smaller)
        if smaller is not None:
            shorter = outcomes.filled(smaller, 0.0)
            rows = both & (shorter > length * (1 + ROUNDING) + ROUNDING)
            yield Broken(name, rows, f"is below its {smaller}, which is impossible")
        smaller = name


def _beyond(view: View, outcomes: Outcomes) -> Iterator[Broken]:
    """Yield broken promises of a perturbation about the inputs, for outcomes at one of its budgets."""
    attack, threat_model = view.attack, view.attack.threat_model
    known = [name for name in (*DISTANCES, "num_changed") if outcomes.values(name) is not None]
    moved = [(name, outcomes.filled(name, 0) > 0) for name in known]
    if attack.is_clean:
        yield from (Broken(name, rows, "is above 0, although the inputs are clean") for name, rows in moved)
    # Cutting values off counts towards no budget, and normalised budgets are those of a model's preprocessing.
    elif threat_model is not None and threat_model.space == "input" and threat_model.clip != "unit":
        epsilon = float(threat_model.epsilon)
        if threat_model.norm in known:
            rows = outcomes.filled(threat_model.norm, 0.0) > epsilon + BUDGET_TOLERANCE * max(1.0, epsilon)
            yield Broken(threat_model.norm, rows, f"is above the budget {threat_model.epsilon_text}")
    if threat_model is not None and threat_model.support is not None and "num_changed" in known:
        rows = outcomes.filled("num_changed", 0) > threat_model.support.most_places
        yield Broken("num_changed", rows, f"is above the {threat_model.support.most_places} of {threat_model.support}")
    if outcomes.values("found") is None:
        return
    is_known = outcomes.known("found")
    if not attack.is_minimum_norm:
        yield Broken("found", is_known, "is known, although the attack of its condition has a budget")
    elif attack.clip == "box":
        unfound = is_known & ~outcomes.filled("found", True)
        yield from (Broken(name, rows & unfound, "is above 0, although nothing was found") for name, rows in moved)


def _is_same(one: str, other: str) -> bool:
    # Texts of a file: a long exponent would take all memory.
    try:
        return one == other or (len(one) < 40 and "e" not in one.lower() and Fraction(one) == Fraction(other))
    except (ValueError, ZeroDivisionError):
        return False
