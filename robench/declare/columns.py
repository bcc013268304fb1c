"""Columns of a suite: each metric with the conditions that it reads.

A metric over single conditions has a column for each of them, and for each budget of a sweep. A metric over threat
models has one for each budget on each dataset: over the clean condition and then all attacks of that budget, those of
sweeps included, so that it can take the per-example worst case. Metrics of minimum-norm attacks have one column per
attack, or per distance listed by a condition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from robench.core.suite import CLEAN, MEASURED, Column
from robench.declarations.views import View, views_of
from robench.declare.searches import distances_of
from robench.declare.shift_columns import corruption_columns, detection_columns
from robench.domains import DOMAINS
from robench.metrics import METRICS, title_of
from robench.metrics.metric import DISTANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from robench.core.declared import DatasetDeclaration
    from robench.core.suite import Condition, Distance, ThreatModel


def columns_of(conditions: Sequence[Condition], metrics: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns by condition, budget and metric, followed by those of threat models by metric."""
    single = [column for condition in conditions for column in _single_columns(condition, metrics)]
    shifts = [*detection_columns(conditions, metrics), *corruption_columns(conditions, metrics)]
    worst = [
        _threat_column(threat, name, several=len({condition.dataset.name for condition in conditions}) > 1)
        for name in metrics
        if METRICS[name].scope == "threat-model"
        for threat in _threats(conditions)
    ]
    return (*single, *shifts, *worst)


def threat_problems(conditions: Sequence[Condition], metric: str) -> list[str]:
    """Return why a metric over threat models cannot be computed from these conditions."""
    threats = _threats(conditions)
    if not threats:
        example = "{name: fgsm, perturbation: {kind: fgsm, epsilon: 8/255}}"
        return [f"{metric} needs at least one attack with a budget; add a condition such as {example}"]
    bare = dict.fromkeys(threat.dataset for threat in threats if not threat.clean)
    problems = [f"{metric} needs a clean condition on {dataset}; add {{name: clean}}" for dataset in bare]
    return problems + [problem for threat in threats if (problem := _uneven(threat, metric))]


def search_problems(conditions: Sequence[Condition], metric: str) -> list[str]:
    """Return why a metric of minimum-norm attacks cannot be computed from these conditions."""
    searches = [condition for condition in conditions if condition.perturbation.search_norm]
    if METRICS[metric].scope == "distance":
        if any(condition.distances for condition in conditions):
            return []
        example = "{name: fab, distances: [1/2, 1], perturbation: {kind: fab, norm: l2, num_steps: 100}}"
        return [f"{metric} needs a condition with distances; add one such as {example}"]
    if not searches:
        example = "{name: fab, perturbation: {kind: fab, norm: l2, num_steps: 100}}"
        return [f"{metric} needs at least one minimum-norm attack; add a condition such as {example}"]
    return [
        f"{metric} cannot be computed from {condition.name}, an attack {wrong}; leave one of them out"
        for condition in searches
        if (wrong := condition.perturbation.distance_problem())
    ]


def num_examples_of(condition: Condition) -> int | None:
    """Return the number of examples of a condition; None for a whole dataset whose size is not declared."""
    whole, asked = condition.dataset.num_examples, condition.num_examples
    return whole if asked is None else asked if whole is None else min(whole, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Threat:
    """Views of conditions on one dataset over which a worst case is taken; ``clean`` may be missing."""

    dataset: str
    model: ThreatModel
    clean: View | None
    attacks: tuple[View, ...]


def _threats(conditions: Sequence[Condition]) -> list[_Threat]:
    attacks: dict[tuple[str, ThreatModel], list[View]] = {}
    for view in (view for condition in conditions for view in views_of(condition)):
        model = view.attack.threat_model
        # Attacks with labels predicted do not refer to the true classes, so no robust accuracy is computed.
        if model is not None and model.labels == "true":
            attacks.setdefault((view.condition.dataset.name, model), []).append(view)
    return [
        _Threat(dataset=dataset, model=model, clean=_clean_beside(found[0], conditions), attacks=tuple(found))
        for (dataset, model), found in attacks.items()
        # Under noise alone nothing was attacked.
        if any(view.attack.reads_outputs for view in found)
    ]


def _clean_beside(attack: View, conditions: Sequence[Condition]) -> View | None:
    """Return the clean condition on an attack's dataset, with as many examples as the attack if there are several."""
    size = num_examples_of(attack.condition)
    clean = [
        view
        for condition in conditions
        if condition.dataset.name == attack.condition.dataset.name and condition.perturbation.is_clean
        for view in views_of(condition)
    ]
    return min(clean, key=lambda view: num_examples_of(view.condition) != size, default=None)


def _uneven(threat: _Threat, metric: str) -> str | None:
    if threat.clean is None:
        return None
    sizes = {view.name: num_examples_of(view.condition) for view in (threat.clean, *threat.attacks)}
    if len(set(sizes.values())) == 1:
        return None
    listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
    return f"{metric} under {threat.model} needs the same num_examples in all of its conditions, but {listed}"


def _single_columns(condition: Condition, metrics: Sequence[str]) -> Iterator[Column]:
    if condition.dataset.is_out_of_distribution:
        # No class is right, so there is no accuracy.
        return
    for view in views_of(condition):
        for name in metrics:
            if METRICS[name].of_changes and condition.perturbation.is_clean:
                continue
            if METRICS[name].scope == "condition" or (METRICS[name].scope == "search" and view.attack.search_norm):
                yield _view_column(view, name)
    for distance in distances_of(condition):
        for name in metrics:
            if METRICS[name].scope == "distance":
                yield _distance_column(condition, distance, name)


def _view_column(view: View, metric: str) -> Column:
    column = Column(
        key=f"{view.name}/{metric}",
        label="",
        metric=metric,
        conditions=(view.name,),
        norm=view.attack.search_norm if METRICS[metric].scope == "search" else None,
        unit=_unit_in(view.condition.dataset) if METRICS[metric].unit == DISTANCE else "",
    )
    return replace(column, label=f"{view.label} {title_of(column)}")


def _unit_in(dataset: DatasetDeclaration) -> str:
    """Return the unit of distances between inputs of a dataset, in the plural; empty if it has none."""
    domain = DOMAINS.get(dataset.domain)
    return f"{domain.unit}s" if domain is not None and domain.unit else ""


def _distance_column(condition: Condition, distance: Distance, metric: str) -> Column:
    return Column(
        key=f"{condition.name}@{distance}/{metric}",
        label=f"{condition.name} {METRICS[metric].title} {distance}",
        metric=metric,
        conditions=(condition.name,),
        distance=distance,
        norm=distance.norm,
    )


def _threat_column(threat: _Threat, metric: str, *, several: bool) -> Column:
    clean = () if threat.clean is None else (threat.clean,)
    names = (threat.dataset, str(threat.model)) if several else (str(threat.model),)
    return Column(
        key="/".join((*names, metric)),
        label=" ".join((*names, METRICS[metric].title)),
        metric=metric,
        conditions=tuple(view.name for view in (*clean, *threat.attacks)),
        roles=(CLEAN,) * len(clean) + (MEASURED,) * len(threat.attacks),
    )
