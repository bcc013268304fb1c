"""Flags of a model: those stored by its audit, and those from comparing the attacks of the suite.

The expected order of each pair of attacks is known (``metrics.sanity``). Attacks are compared per example if both are
complete, on the same data, and use true labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import fsum, inf

import numpy as np
from numpy.typing import NDArray

from robench.core.budgets import ThreatModel
from robench.core.columns import Outcomes
from robench.core.declared import DatasetDeclaration, PerturbationDeclaration
from robench.core.flags import NOTHING_TO_ATTACK, Flag
from robench.core.records import Record
from robench.core.suite import Condition, views_of
from robench.domains import DOMAINS
from robench.metrics.audits import judged
from robench.metrics.certified_radii import contradicted
from robench.metrics.sanity import (
    KNOWS_ATTENTION,
    LEAST_COMPARED,
    MORE_STEPS,
    PLAIN_LOSS,
    RANDOM_SEARCH,
    SINGLE_STEP,
    SMALLER_BUDGET,
    Expectation,
    beaten,
    right_at_any_distance,
)
from robench.reports.selection import Coverage
from robench.tasks import TASKS


@dataclass(frozen=True, slots=True)
class Tried:
    """Attack that every example of a condition went through.

    Attributes:
        survives: (N,) whether each example survives, or the proportion of its answers that is still right.
        leans: whether it belongs to a sweep with linked budgets, for which monotonicity is not informative.
    """

    name: str
    dataset: DatasetDeclaration
    attack: PerturbationDeclaration
    threat_model: ThreatModel
    survives: NDArray[np.bool_] | NDArray[np.float64]
    leans: bool = False


def flags_of(
    audits: Iterable[Coverage], tried: Sequence[Tried], certificates: Iterable[Flag] = ()
) -> tuple[Flag, ...] | None:
    """Return the flags of one model, raised or not; None if neither audits nor comparisons are available."""
    covered = [coverage for coverage in audits if coverage.records]
    several = len(covered) > 1
    kept = [
        replace(flag, name=f"{flag.name} ({coverage.condition})") if several else flag
        for coverage in covered
        for flag in flags_of_audit(coverage.records)
    ]
    compared = [*_compared(tried), *_knowing(tried), *_at_any_distance(tried), *certificates]
    return (*kept, *compared) if covered or compared else None


def flags_of_audit(records: Sequence[Record]) -> Sequence[Flag]:
    """Return the flags of an audit from the records of its shards; one from before there were several is whole."""
    seen = [each for record in records for each in record.observations]
    return judged(seen) if seen else records[0].flags


def notes_of_audits(audits: Iterable[Coverage]) -> list[str]:
    """Return a sentence on each audit of fewer examples than a full one, or of too few for comparisons."""
    notes = []
    for coverage in audits:
        num_in = sum(record.shard.stop - record.shard.start for record in coverage.records)
        most = coverage.num_wanted or 0
        if not num_in or num_in == most >= LEAST_COMPARED:
            continue
        power = f"comparisons of attacks, which need {LEAST_COMPARED}, are left out"
        if num_in >= LEAST_COMPARED:
            least = -(-100 * LEAST_COMPARED // num_in)
            power = f"comparisons of attacks find only what changes {least} % of them or more"
        if any(flag.name == NOTHING_TO_ATTACK for flag in flags_of_audit(coverage.records)):
            power = "the model is right about none of them, so that nothing was checked"
        full = "" if num_in == most else " (--audit full: all)"
        notes.append(f"{coverage.condition}: on {num_in} of {most} examples{full}; {power}")
    return notes


def flags_of_certificates(conditions: Sequence[Condition], coverages: Mapping[str, Coverage]) -> Iterator[Flag]:
    """Yield, for each attack on a smoothed model, whether it found another class within a certified radius.

    The examples that the clean condition and the attack share are compared.
    """
    found = {each.name: outcomes for each in conditions if (outcomes := _smoothed(each, coverages)) is not None}
    for clean, attack in permutations([each for each in conditions if each.name in found], 2):
        if clean.perturbation.is_clean and not attack.perturbation.is_clean and clean.dataset == attack.dataset:
            for view in views_of(attack):
                attacked = coverages[attack.name].outcomes_at(view.epsilon)
                yield _contradicted(found[clean.name], attacked, coverages[clean.name], view.label)


def _smoothed(condition: Condition, coverages: Mapping[str, Coverage]) -> Outcomes | None:
    """Return the outcomes of a condition if all are there, and of a smoothed model."""
    coverage = coverages[condition.name]
    if coverage.missing or not coverage.records or coverage.records[0].shard.alpha is None:
        return None
    return coverage.outcomes_at(views_of(condition)[0].epsilon)


def _contradicted(certified: Outcomes, attacked: Outcomes, clean: Coverage, what: str) -> Flag:
    count = min(len(certified), len(attacked))
    one, other = certified.take(slice(count)), attacked.take(slice(count))
    is_certified = one.known("certified_radius")
    differs = (one.column("prediction") != other.column("prediction")) & ~other.filled("abstained", False)
    # An example at an unknown distance contradicts nothing.
    radius, distance = one.filled("certified_radius", 0.0), other.filled("l2", inf)
    alpha = clean.records[0].shard.alpha or 0.0
    return contradicted(radius[is_certified], distance[is_certified], differs[is_certified], alpha, what)


def is_audited_attack(condition: Condition) -> bool:
    """Return whether a condition is an attack on a model, of inputs and a task that audits are for."""
    domain, task = DOMAINS.get(condition.dataset.domain), TASKS[condition.dataset.task]
    is_attack = condition.action.runs_attack and condition.perturbation.is_attack
    return is_attack and task.is_audited and domain is not None and domain.audit_epsilon is not None


def tried_of(conditions: Sequence[Condition], coverages: Mapping[str, Coverage]) -> list[Tried]:
    """Return the attacks of a suite that can be compared, with each budget of a sweep separately."""
    return [
        Tried(
            name=view.label,
            dataset=condition.dataset,
            attack=view.attack,
            threat_model=threat_model,
            survives=survives(coverage.outcomes_at(view.epsilon)),
            leans=condition.perturbation.budgets_are_linked,
        )
        for condition in conditions
        if condition.action.runs_attack and (coverage := coverages[condition.name]).missing == 0 and coverage.num_in
        for view in views_of(condition)
        if (threat_model := view.attack.threat_model) is not None
        and threat_model.labels == "true"
        and (survives := TASKS[condition.dataset.task].right) is not None
    ]


def _compared(tried: Sequence[Tried]) -> Iterator[Flag]:
    for stronger, weaker in permutations(tried, 2):
        expectation = _expectation(stronger, weaker)
        if expectation and len(stronger.survives) == len(weaker.survives):
            what = f"{weaker.name} against {stronger.name}"
            yield beaten(expectation, stronger.survives, weaker.survives, what)


def _expectation(stronger: Tried, weaker: Tried) -> Expectation | None:
    """Return the expected order of the second attack relative to the first, if any."""
    if stronger.dataset != weaker.dataset:
        return None
    first, second = stronger.attack, weaker.attack
    if stronger.threat_model != weaker.threat_model:
        is_smaller = weaker.threat_model.epsilon < stronger.threat_model.epsilon
        leans = stronger.leans or weaker.leans
        return SMALLER_BUDGET if is_smaller and not leans and first.is_same_at_another_budget(second) else None
    if first.is_iterated and second.is_single_step:
        return SINGLE_STEP
    if first.is_iterated and second.is_gradient_free:
        return RANDOM_SEARCH
    # The longer search comes second: it should find no more.
    if second.is_twice_as_long_as(first):
        return MORE_STEPS
    return PLAIN_LOSS if _should_beat_plain(stronger, weaker) else None


def _should_beat_plain(stronger: Tried, weaker: Tried) -> bool:
    """Return whether an attack should find what one with the plain loss finds, which takes no more passes."""
    first, second = stronger.attack, weaker.attack
    if TASKS[stronger.dataset.task].proportion is None or not (first.is_iterated and second.is_iterated):
        return False
    passes, of_plain = first.most_passes, second.most_passes
    return second.follows_plain_loss and passes is not None and of_plain is not None and of_plain <= passes


def _knowing(tried: Sequence[Tried]) -> Iterator[Flag]:
    """Yield, of each threat model, the strongest attack that knows the mechanism against the strongest other one."""
    groups: dict[tuple[DatasetDeclaration, ThreatModel], list[Tried]] = {}
    for each in tried:
        groups.setdefault((each.dataset, each.threat_model), []).append(each)
    for group in groups.values():
        knowing = [each for each in group if each.attack.knows_mechanism]
        others = [each for each in group if each.attack.reads_outputs and not each.attack.knows_mechanism]
        if knowing and others:
            best, other = (min(some, key=lambda each: fsum(each.survives)) for some in (knowing, others))
            what, count = f"{best.name} against {other.name}", len(knowing)
            if len(best.survives) == len(other.survives):
                yield beaten(KNOWS_ATTENTION, other.survives, best.survives, what, num_tests=count)


def _at_any_distance(tried: Sequence[Tried]) -> Iterator[Flag]:
    for each in tried:
        budget, domain = each.threat_model, DOMAINS.get(each.dataset.domain)
        # Without limits the distance depends on the data, and the audit alone knows it.
        if domain is None or domain.half_range is None:
            continue
        is_free = budget.norm == "linf" and budget.space == "input" and budget.support is None
        is_everything = is_free and budget.epsilon >= domain.half_range
        # One in so many classes is chance where an example has one class, as in the tasks that audits are for.
        num_classes = each.dataset.num_classes if TASKS[each.dataset.task].is_audited else None
        if each.attack.is_iterated and is_everything and num_classes is not None:
            yield right_at_any_distance(each.survives, num_classes, each.name)
