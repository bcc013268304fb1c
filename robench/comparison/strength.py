"""Strength of the attacks of a suite: optimality and cost of each, beside the others in the same norm.

An attack is a condition; one at several budgets has the smallest distance of all. Compared are conditions on the same
data in the same norm, under threat models in the space of the inputs, within their limits, away from the true classes.
Bounds on the number of changes (``L0``) belong to l0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import nan
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robench.comparison.optimality import optimality
from robench.core.columns import Outcomes
from robench.core.declared import PerturbationDeclaration
from robench.core.errors import IncomparableError, IncompleteError, UsageError
from robench.core.report import Estimate
from robench.core.suite import Condition, Suite, views_of
from robench.declarations.supports import L0
from robench.declare.columns import clean_beside
from robench.reports.results import Results
from robench.reports.selection import Coverage, cover
from robench.tasks import TASKS

_NORMS = ("linf", "l2", "l1", "l0")
_USUAL = {"space": "input", "clip": "box", "labels": "true", "pixels": "real"}


class Norm(NamedTuple):
    """Norm on a dataset in which attacks are compared; ``unit`` is what l0 counts, else empty."""

    dataset: str
    name: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name}{f' ({self.unit})' if self.unit else ''} on {self.dataset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackStrength:
    """Strength of one attack on one model.

    Attributes:
        optimality: proportion with its interval; None where it is undefined.
        median: median distance over the images that are right when clean, in units of the inputs, or changes in l0.
        num_queries, num_gradients: forward and backward passes of an image, of a sweep summed over budgets; None if
            they are not counted.
        seconds: seconds of the shards over their images.
        num_alone: number of images that no other attack fools; ``num_nearest``: of those at a smaller distance than
            under any other.
    """

    name: str
    optimality: Estimate | None
    median: float
    num_queries: float | None
    num_gradients: float | None
    seconds: float
    num_alone: int
    num_nearest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Attacks on one model in one norm, with the distances (A, N) of the same N images, as in ``optimality``."""

    model: str
    norm: Norm
    attacks: tuple[AttackStrength, ...]
    distances: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """Groups of all models; ``notes`` and ``missing`` say what is left out, by rule or for lack of results."""

    suite: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def overall(self) -> dict[Norm, dict[str, float]]:
        """Return the global optimality, the mean over models, of attacks with a number of every model."""
        local: dict[Norm, dict[str, list[float]]] = {}
        for group in self.groups:
            for each in group.attacks:
                values = local.setdefault(group.norm, {}).setdefault(each.name, [])
                values += [] if each.optimality is None else [each.optimality.value]
        count = len({group.model for group in self.groups})
        return {
            norm: {name: fmean(values) for name, values in attacks.items() if len(values) == count}
            for norm, attacks in local.items()
        }


def with_comparable(suite: Suite) -> tuple[Suite, tuple[str, ...]]:
    """Return a suite with comparable attacks and their clean conditions alone, and notes on others.

    Raises:
        UsageError: no two attacks are comparable, there is no clean condition, or the task has no right and wrong.
    """
    groups, notes = _grouped(suite.conditions)
    if not groups or TASKS[suite.task].verdict is None:
        raise UsageError(f"suite {suite.name!r} has no two attacks on classifiers in one norm", *notes)
    kept = [
        name for attacks in groups.values() for name in (_clean_of(attacks, suite), *(each.name for each in attacks))
    ]
    conditions = tuple(each for each in suite.conditions if each.name in kept)
    return replace(suite, conditions=conditions, columns=(), audit=False), notes


def strengths_of(suite: Suite, results: Results, models: Sequence[str], limit: int | None = None) -> Strengths:
    """Return the strengths of a suite's attacks on some models; ``limit`` is the number of first examples.

    Raises:
        UsageError: see ``with_comparable``.
        IncomparableError: conditions of one group have different examples.
    """
    asked, notes = with_comparable(suite)
    found: list[Group] = []
    missing: list[str] = []
    for model in models:
        coverages = cover(asked.conditions, results.of(model), dataset_sizes=results.sizes, limit=limit)
        lacking = [name for name, coverage in coverages.items() if coverage.missing != 0]
        missing += [f"{model}: {name} lacks examples" for name in lacking]
        for norm, attacks in _grouped(asked.conditions)[0].items():
            clean = _clean_of(attacks, asked)
            whole = [each for each in attacks if each.name not in lacking]
            if clean not in lacking and len(whole) > 1:
                verdict = str(TASKS[suite.task].verdict)
                found.append(_group(model, norm, coverages[clean], whole, coverages, verdict))
    notes += tuple(
        f"{each.model}, {each.norm}: no optimality, which needs several budgets, and images fooled below the largest "
        "best distance"
        for each in found
        if each.attacks[0].optimality is None
    )
    return Strengths(suite=suite.name, groups=tuple(found), notes=notes, missing=tuple(missing))


def distances_of(
    outcomes: Sequence[Outcomes], is_right: NDArray[np.bool_], norm: str, verdict: str
) -> NDArray[np.float64]:
    """Return the smallest distance (N,) of each image over outcomes of the same images, such as those of a sweep.

    ``is_right`` says which are right when clean; ``verdict`` is the column that says so of outcomes.
    """
    length = "num_changed" if norm == "l0" else norm
    fallen = [np.where(each.column(verdict), np.inf, each.column(length)) for each in outcomes]
    return np.where(is_right, np.min(fallen, axis=0), 0.0)


def _grouped(conditions: Sequence[Condition]) -> tuple[dict[Norm, list[Condition]], tuple[str, ...]]:
    """Return the attacks in each norm that has several, and a note on each that is left out."""
    groups: dict[Norm, list[Condition]] = {}
    notes: list[str] = []
    for condition in (each for each in conditions if each.perturbation.is_attack):
        attack = views_of(condition)[0].attack
        if problem := _problem(attack):
            notes.append(f"{condition.name} is left out: {problem}")
            continue
        unit = attack.counted.unit if isinstance(attack.counted, L0) else ""
        norm = Norm(condition.dataset.name, "l0" if unit else str(_norm_of(attack)), unit)
        groups.setdefault(norm, []).append(condition)
    notes += [f"{each[0].name} is left out: it is alone in {norm}" for norm, each in groups.items() if len(each) == 1]
    return {norm: attacks for norm, attacks in groups.items() if len(attacks) > 1}, tuple(notes)


def _norm_of(attack: PerturbationDeclaration) -> str | None:
    return attack.search_norm or (attack.threat_model.norm if attack.threat_model else None)


def _problem(attack: PerturbationDeclaration) -> str:
    """Return why the distances of an attack do not count beside those of others; empty if they do."""
    if not attack.reads_outputs or _norm_of(attack) not in _NORMS:
        return "it has no norm, or does not look at the model"
    for name, usual in _USUAL.items():
        if (found := getattr(attack.threat_model or attack, name, usual)) != usual:
            return f"its {name} is {found}, not {usual}"
    if attack.counted is not None and not isinstance(attack.counted, L0):
        return f"it is limited to {attack.counted}"
    # The clean condition says which images are wrong when clean, so that a library may move them.
    is_read = attack.search_norm is None or (attack.backend != "robench" and not attack.stops_at_success)
    problem = "" if is_read else attack.distance_problem()
    return f"it is an attack {problem}" if problem else ""


def _clean_of(attacks: Sequence[Condition], suite: Suite) -> str:
    clean = clean_beside(views_of(attacks[0])[0], suite.conditions)
    if clean is None:
        raise UsageError(f"suite {suite.name!r} has no clean condition beside {attacks[0].name!r}; add {{name: clean}}")
    return clean.name


def _group(
    model: str,
    norm: Norm,
    clean: Coverage,
    attacks: Sequence[Condition],
    coverages: Mapping[str, Coverage],
    verdict: str,
) -> Group:
    ids, is_right = clean.outcomes.ids, clean.outcomes.column(verdict)
    outcomes = [[coverages[each.name].outcomes_at(view.epsilon) for view in views_of(each)] for each in attacks]
    for attack, (first, *_) in zip(attacks, outcomes, strict=True):
        if not np.array_equal(first.ids, ids):
            raise IncomparableError(
                f"conditions {clean.condition!r} and {attack.name!r} have different examples (n = {len(ids)} and "
                f"{len(first)}); give them the same num_examples"
            )
    distances = np.stack([distances_of(each, is_right, norm.name, verdict) for each in outcomes])
    values: Sequence[Estimate | None] = [None] * len(attacks)
    budgets = {view.attack.threat_model for each in attacks for view in views_of(each)}
    # At one budget all distances are equal but for rounding.
    if None in budgets or len(budgets) > 1:
        with suppress(IncompleteError):
            values = optimality(distances, is_right, ids)
    rows = []
    for place, (attack, own) in enumerate(zip(attacks, distances, strict=True)):
        others, records = np.delete(distances, place, axis=0).min(0), coverages[attack.name].records
        num_examples = sum(each.shard.stop - each.shard.start for each in records)
        rows.append(
            AttackStrength(
                name=attack.name,
                optimality=values[place],
                median=float(np.median(own[is_right])) if is_right.any() else nan,
                num_queries=_passes(outcomes[place], "num_queries"),
                num_gradients=_passes(outcomes[place], "num_gradients"),
                seconds=sum(each.provenance.seconds for each in records) / num_examples,
                num_alone=int((np.isfinite(own) & np.isinf(others)).sum()),
                num_nearest=int((own < others).sum()),
            )
        )
    return Group(model=model, norm=norm, attacks=tuple(rows), distances=distances)


def _passes(outcomes: Sequence[Outcomes], name: str) -> float | None:
    is_counted = all(each.known(name).all() for each in outcomes)
    return float(sum(each.column(name).mean() for each in outcomes)) if is_counted else None
