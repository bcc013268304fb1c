"""The columns of a suite: which metric is read off which conditions.

A metric over single conditions has a column for each of them. A metric over threat models has one for each budget on
each dataset: over the clean condition and then all attacks of that budget, so that it can take the worst case example
by example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.suite import Column
from robench.declarations.datasets import DATASETS
from robench.declarations.perturbations import Clean, threat_model_of
from robench.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.suite import Condition, ThreatModel


def columns_of(conditions: Sequence[Condition], metrics: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns by condition and then metric, and after them those of threat models by metric."""
    single = [
        _condition_column(condition, name)
        for condition in conditions
        for name in metrics
        if METRICS[name].scope == "condition"
    ]
    worst = [
        _threat_column(threat, name, several=len({condition.dataset for condition in conditions}) > 1)
        for name in metrics
        if METRICS[name].scope == "threat-model"
        for threat in _threats(conditions)
    ]
    return (*single, *worst)


def threat_problems(conditions: Sequence[Condition], metric: str) -> list[str]:
    """Return what keeps a metric over threat models from being read off these conditions."""
    threats = _threats(conditions)
    if not threats:
        example = "{name: fgsm, perturbation: {kind: fgsm, epsilon: 8/255}}"
        return [f"{metric} needs at least one attack with a budget; add a condition such as {example}"]
    bare = dict.fromkeys(threat.dataset for threat in threats if not threat.clean)
    problems = [f"{metric} needs a clean condition on {dataset}; add {{name: clean}}" for dataset in bare]
    return problems + [problem for threat in threats if (problem := _uneven(threat, metric))]


def num_examples_of(condition: Condition) -> int:
    """Return how many examples a condition really has; its dataset must be a known one."""
    whole = DATASETS[condition.dataset].num_examples
    return whole if condition.num_examples is None else min(whole, condition.num_examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Threat:
    """The conditions on one dataset that a worst case is taken over; ``clean`` may not be there."""

    dataset: str
    model: ThreatModel
    clean: Condition | None
    attacks: tuple[Condition, ...]


def _threats(conditions: Sequence[Condition]) -> list[_Threat]:
    attacks: dict[tuple[str, ThreatModel], list[Condition]] = {}
    for condition in conditions:
        model = threat_model_of(condition.perturbation)
        # What moves away from predictions says nothing of the true classes, and is never called robust.
        if model is not None and model.labels == "true":
            attacks.setdefault((condition.dataset, model), []).append(condition)
    return [
        _Threat(dataset=dataset, model=model, clean=_clean_beside(found[0], conditions), attacks=tuple(found))
        for (dataset, model), found in attacks.items()
    ]


def _clean_beside(attack: Condition, conditions: Sequence[Condition]) -> Condition | None:
    """Return the clean condition on an attack's dataset, of as many examples as the attack where there are several."""
    clean = [
        condition
        for condition in conditions
        if condition.dataset == attack.dataset and isinstance(condition.perturbation, Clean)
    ]
    return min(clean, key=lambda condition: num_examples_of(condition) != num_examples_of(attack), default=None)


def _uneven(threat: _Threat, metric: str) -> str | None:
    if threat.clean is None:
        return None
    sizes = {condition.name: num_examples_of(condition) for condition in (threat.clean, *threat.attacks)}
    if len(set(sizes.values())) == 1:
        return None
    listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
    return f"{metric} under {threat.model} needs the same num_examples in all of its conditions, but {listed}"


def _condition_column(condition: Condition, metric: str) -> Column:
    return Column(
        key=f"{condition.name}/{metric}",
        label=f"{condition.name} {METRICS[metric].title}",
        metric=metric,
        conditions=(condition.name,),
    )


def _threat_column(threat: _Threat, metric: str, *, several: bool) -> Column:
    clean = () if threat.clean is None else (threat.clean,)
    names = (threat.dataset, str(threat.model)) if several else (str(threat.model),)
    return Column(
        key="/".join((*names, metric)),
        label=" ".join((*names, METRICS[metric].title)),
        metric=metric,
        conditions=tuple(condition.name for condition in (*clean, *threat.attacks)),
    )
