"""Flags of a model: those that its audit kept, and those that the conditions of the suite raise beside each other.

What every pair of attacks should do is known beforehand (``metrics.sanity``). Attacks are compared example by example
where both are complete, of the same data, and move away from true labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

from robench.core.identity import to_plain
from robench.declarations.apgd_attack import Apgd
from robench.declarations.attack_base import BoundedAttack
from robench.declarations.attacks import Fgsm, GaussianNoise, Pgd, UniformNoise
from robench.declarations.datasets import DATASETS
from robench.declarations.spsa_attack import Spsa
from robench.declarations.square_attack import Square
from robench.declarations.sweep import Sweep
from robench.declarations.views import views_of
from robench.metrics.accuracy import classified
from robench.metrics.sanity import (
    MORE_STEPS,
    RANDOM_SEARCH,
    SINGLE_STEP,
    SMALLER_BUDGET,
    Expectation,
    beaten,
    right_at_any_distance,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from robench.core.flags import Flag
    from robench.core.suite import Condition
    from robench.reports.coverage import Coverage

ITERATED = (Pgd, Apgd)
BLIND = (Square, Spsa, UniformNoise, GaussianNoise)
# From here on every image can be grey all over.
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Tried:
    """An attack that every example of a condition went through, and which of them stood.

    Attributes:
        name: as readers know it.
        leans: whether it is of a sweep whose budgets lean on each other, of which monotonicity says nothing.
    """

    name: str
    dataset: str
    attack: BoundedAttack
    stands: tuple[bool, ...]
    leans: bool = False


def flags_of(audits: Iterable[Coverage], tried: Sequence[Tried]) -> tuple[Flag, ...] | None:
    """Return the flags of one model, raised or not; None where neither audits nor comparisons are in."""
    covered = [(coverage.condition, record) for coverage in audits for record in coverage.records]
    several = len(covered) > 1
    kept = [
        replace(flag, name=f"{flag.name} ({condition})") if several else flag
        for condition, record in covered
        for flag in record.flags
    ]
    compared = [*_compared(tried), *_at_any_distance(tried)]
    return (*kept, *compared) if covered or compared else None


def tried_of(conditions: Sequence[Condition], coverages: Mapping[str, Coverage]) -> list[Tried]:
    """Return the attacks of a suite that can be compared, each budget of a sweep alone."""
    return [
        Tried(
            name=view.label,
            dataset=condition.dataset,
            attack=attack,
            stands=tuple(outcome.correct_top1 for outcome in classified(coverage.outcomes_at(view.epsilon))),
            leans=isinstance(sweep := condition.perturbation, Sweep) and (sweep.carry or sweep.warm_start),
        )
        for condition in conditions
        if (coverage := coverages[condition.name]).missing == 0 and coverage.num_in
        for view in views_of(condition)
        if isinstance(attack := view.attack, BoundedAttack) and attack.labels == "true"
    ]


def _compared(tried: Sequence[Tried]) -> Iterator[Flag]:
    for stronger, weaker in permutations(tried, 2):
        expectation = _expectation(stronger, weaker)
        if expectation and len(stronger.stands) == len(weaker.stands):
            what = f"{weaker.name} against {stronger.name}"
            yield beaten(expectation, stronger.stands, weaker.stands, what)


def _expectation(stronger: Tried, weaker: Tried) -> Expectation | None:
    """Return what is expected of the second beside the first, if anything is."""
    if stronger.dataset != weaker.dataset:
        return None
    first, second = stronger.attack, weaker.attack
    if first.threat_model != second.threat_model:
        alike = _but(first, "epsilon", "step_size") == _but(second, "epsilon", "step_size")
        leans = stronger.leans or weaker.leans
        return SMALLER_BUDGET if alike and not leans and first.epsilon > second.epsilon else None
    if isinstance(first, ITERATED) and isinstance(second, Fgsm):
        return SINGLE_STEP
    if isinstance(first, ITERATED) and isinstance(second, BLIND):
        return RANDOM_SEARCH
    # The longer search stands second: it should find no more.
    is_twice = getattr(second, "num_steps", 0) >= 2 * getattr(first, "num_steps", 1)
    return MORE_STEPS if is_twice and _but(first, "num_steps") == _but(second, "num_steps") else None


def _but(attack: BoundedAttack, *names: str) -> dict[str, object]:
    plain = to_plain(attack)
    assert isinstance(plain, dict)  # of a dataclass
    return {name: value for name, value in plain.items() if name not in names}


def _at_any_distance(tried: Sequence[Tried]) -> Iterator[Flag]:
    for each in tried:
        budget = each.attack
        if (
            isinstance(budget, ITERATED)
            and budget.norm == "linf"
            and budget.space == "pixel"
            and budget.epsilon >= HALF
        ):
            yield right_at_any_distance(each.stands, DATASETS[each.dataset].num_classes, each.name)
