"""Groups of a suite's columns, such as attacks: they stay in the order of the suite, and budgets within one ascend."""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TypeVar

from robench.core.budgets import ThreatModel
from robench.core.suite import View

T = TypeVar("T")


def setting_of(view: View) -> tuple[str, str, Fraction]:
    """Return the group of a view, such as ``pgd`` of the condition ``pgd-8``, and its setting as text and as number.

    That is the budget, such as ``8/255``, or without one the number at the end of the name.
    """
    name, threat = view.condition.name, view.attack.threat_model
    stem, _, number = name.rpartition("-")
    if threat is None:
        is_number = stem and re.fullmatch(r"[0-9]+(\.[0-9]+)?", number)
        return (stem, number, Fraction(number)) if is_number else (name, "", Fraction(0))
    setting = threat.epsilon_text if threat.support is None else str(threat.support)
    # Other numbers are of steps and the like; a sweep has one name for all budgets.
    is_setting = view.epsilon is None and stem and number in (setting, re.split("[/-]", setting)[0])
    return stem if is_setting else name, setting, amount_of(threat)


def amount_of(threat: ThreatModel) -> Fraction:
    """Return a number that grows with the budget, and with the places that an attack may change."""
    return threat.epsilon * (1 if threat.support is None else threat.support.most_places)


def ascending(items: Iterable[T], group_of: Callable[[T], object], amount: Callable[[T], Fraction]) -> list[T]:
    """Return items with those of a group at the place of its first one, in order of their amounts.

    >>> ascending(["b2", "a", "b1"], lambda each: each[0], lambda each: Fraction(each[1:] or 0))
    ['b1', 'b2', 'a']
    """
    listed = list(items)
    groups = [group_of(each) for each in listed]
    return sorted(listed, key=lambda each: (groups.index(group_of(each)), amount(each)))
