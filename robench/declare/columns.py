"""Columns of a suite, each a metric with the conditions that it reads; and checks that conditions support a metric.

A metric over single conditions has a column for each of them, and for each budget of a sweep. A metric over threat
models has one for each budget on each dataset: over the clean condition and then all attacks of that budget, those of
sweeps included, so that it can take the per-example worst case. Metrics of minimum-norm attacks have one column per
attack, or per distance listed by a condition.

A metric over corruptions has a column for each type, or for each family (the published files, or corruptions of one
dataset): over the clean condition, if there is one, and then five severities of each type. A metric of detection has
one for each condition that names its negatives.

Conditions that differ in their budget, or in the number at the end of their name, are one group of columns, ascending.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from robench.core.budgets import ThreatModel
from robench.core.suite import CLEAN, MEASURED, NEGATIVES, Column, Condition, Distance, Role, View, views_of
from robench.corruptions import SEVERITIES
from robench.datasets.base import corrupted_of, uncorrupted_of
from robench.declarations.base import FieldProblem
from robench.declare.column_order import amount_of, ascending, setting_of
from robench.domains import DOMAINS
from robench.metrics import METRICS, Metric, title_of
from robench.metrics.metric import DISTANCE
from robench.metrics.reference_errors import REFERENCES, averaged_types
from robench.perturbations import PERTURBATIONS

Types = dict[str, dict[int, "Condition"]]


def columns_of(conditions: Sequence[Condition], metrics: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns by condition, budget and metric, followed by those of threat models by metric and budget."""
    settings = {condition.name: setting_of(views_of(condition)[0]) for condition in conditions}
    ordered = ascending(conditions, lambda each: settings[each.name][0], lambda each: settings[each.name][2])
    single = [column for condition in ordered for column in _single_columns(condition, metrics)]
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
    if METRICS[metric].scope == "radius":
        has_radii = any(each.distances and each.perturbation.is_clean for each in conditions)
        return [] if has_radii else [f"{metric} needs radii; add them to clean examples, such as distances: [1/4, 1/2]"]
    if METRICS[metric].scope == "distance":
        if any(condition.distances and not condition.perturbation.is_clean for condition in conditions):
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
    ordered = ascending(
        attacks.items(),
        lambda each: (each[0][0], replace(each[0][1], epsilon=Fraction(0), support=None)),
        lambda each: amount_of(each[0][1]),
    )
    return [
        _Threat(dataset=dataset, model=model, clean=clean_beside(found[0], conditions), attacks=tuple(found))
        for (dataset, model), found in ordered
        # Under noise alone nothing was attacked.
        if any(view.attack.reads_outputs for view in found)
    ]


def clean_beside(attack: View, conditions: Sequence[Condition]) -> View | None:
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
            if METRICS[name].scope == "class":
                yield from _class_columns(view, name)
    for distance in distances_of(condition):
        for name in metrics:
            if METRICS[name].scope == ("radius" if condition.perturbation.is_clean else "distance"):
                yield Column(
                    key=f"{condition.name}@{distance}/{name}",
                    label=f"{condition.name} {METRICS[name].title} {distance}",
                    metric=name,
                    conditions=(condition.name,),
                    distance=distance,
                    norm=distance.norm,
                    group=condition.name,
                    setting=str(distance),
                )


def _view_column(view: View, metric: str) -> Column:
    group, setting, _ = setting_of(view)
    column = Column(
        key=f"{view.name}/{metric}",
        label="",
        metric=metric,
        conditions=(view.name,),
        norm=view.attack.search_norm if METRICS[metric].scope == "search" else None,
        unit=_unit_of(view) if METRICS[metric].unit == DISTANCE else "",
        group=group,
        setting=setting,
    )
    return replace(column, label=f"{view.label} {title_of(column)}")


def _class_columns(view: View, metric: str) -> Iterator[Column]:
    """Yield a column for each class of the dataset; none if the declaration does not know their number."""
    dataset = view.condition.dataset
    names = dataset.class_names or tuple(map(str, range(dataset.num_classes or 0)))
    for of_class, name in enumerate(names):
        yield Column(
            key=f"{view.name}/{name}/{metric}",
            label=f"{view.label} {METRICS[metric].title} of {name}",
            metric=metric,
            conditions=(view.name,),
            of_class=of_class,
            group=view.label,
            setting=name,
        )


def _unit_of(view: View) -> str:
    """Return the unit of an attack's distances, in the plural: what it counts, or that of inputs; empty for none."""
    if view.attack.search_norm == "l0":
        return str(getattr(view.attack.counted, "unit", ""))
    domain = DOMAINS.get(view.condition.dataset.domain)
    return f"{domain.unit}s" if domain is not None and domain.unit else ""


def _threat_column(threat: _Threat, metric: str, *, several: bool) -> Column:
    clean = () if threat.clean is None else (threat.clean,)
    names = (threat.dataset, str(threat.model)) if several else (str(threat.model),)
    budget = threat.model.epsilon_text
    return Column(
        key="/".join((*names, metric)),
        label=" ".join((*names, METRICS[metric].title)),
        metric=metric,
        conditions=tuple(view.name for view in (*clean, *threat.attacks)),
        roles=(CLEAN,) * len(clean) + (MEASURED,) * len(threat.attacks),
        group=" ".join(names).replace(f"-{budget}", "", 1),
        setting=budget,
    )


def distances_of(condition: Condition) -> tuple[Distance, ...]:
    """Return the distances of a condition: of a minimum-norm attack in its norm, of clean examples certified in l2."""
    norm = "l2" if condition.perturbation.is_clean else condition.perturbation.search_norm
    return () if norm is None else tuple(Distance(norm=norm, value=value) for value in condition.distances)


def distance_problems(condition: Condition) -> Iterator[str]:
    """Yield the problems of a condition's distances, if it has any."""
    if not condition.distances:
        return
    attack = condition.perturbation
    if not (attack.is_clean or attack.is_minimum_norm):
        able = ", ".join(sorted(kind for kind, declared in PERTURBATIONS.loaded() if declared.is_minimum_norm))
        yield f"must be left out for {attack.kind}: only minimum-norm attacks ({able}) and clean examples have some"
        return
    if not attack.is_clean and (wrong := attack.distance_problem()):
        yield f"must be left out for an attack {wrong}"
    shown = [str(distance) for distance in distances_of(condition)]
    for twice in dict.fromkeys(each for each in shown if shown.count(each) > 1):
        yield f"must differ as displayed, got {twice} twice"


def detection_columns(conditions: Sequence[Condition], metrics: Sequence[str]) -> Iterator[Column]:
    """Yield the columns of out-of-distribution examples, by condition and metric."""
    for condition in conditions:
        for name in metrics:
            if condition.negatives is not None and METRICS[name].scope == "detection":
                yield Column(
                    key=f"{condition.name}/{name}",
                    label=f"{condition.name} {METRICS[name].title}",
                    metric=name,
                    conditions=(condition.name, condition.negatives),
                    roles=(MEASURED, NEGATIVES),
                    group=condition.name,
                )


def corruption_columns(conditions: Sequence[Condition], metrics: Sequence[str]) -> Iterator[Column]:
    """Yield the columns of families of corruptions by metric, followed by those of types."""
    for family, types in families_of(conditions).items():
        for name in metrics:
            if METRICS[name].scope == "family":
                yield _column(family, family, name, _clean_of(family, conditions), types)
        for corruption, severities in types.items():
            for name in metrics:
                if METRICS[name].scope == "type":
                    yield _column(f"{family} {corruption}", family, name, [], {corruption: severities})


def families_of(conditions: Sequence[Condition]) -> dict[str, Types]:
    """Return the conditions of each family of corruptions by type and severity."""
    families: dict[str, Types] = {}
    for condition in conditions:
        if (corrupted := corrupted_of(condition)) is not None:
            types = families.setdefault(corrupted.family, {})
            types.setdefault(corrupted.type, {})[corrupted.severity] = condition
    return families


def corruption_problems(conditions: Sequence[Condition], metric: str) -> list[str]:
    """Return why a metric over corruptions cannot be computed from these conditions."""
    declared, families = METRICS[metric], families_of(conditions)
    if not families:
        example = "{name: snow-3, perturbation: {kind: corruption, type: snow, severity: 3}}"
        return [f"{metric} needs corruptions at five severities; add conditions such as {example}"]
    problems = []
    for family, types in families.items():
        problems += [
            f"{metric} needs five severities of {family} {corruption}; add {', '.join(missing)}"
            for corruption, severities in types.items()
            if not declared.takes_any_severity
            and (missing := [str(each) for each in SEVERITIES if each not in severities])
        ]
        problems += _reference_problems(family, types, declared) if declared.needs_reference else []
        if declared.needs_clean and not _clean_of(family, conditions):
            problems.append(f"{metric} needs the images of {family} without corruption; add {{name: clean}}")
    return problems


def class_problems(conditions: Sequence[Condition], metric: str) -> list[str]:
    """Return why a metric of single classes has no columns."""
    if any(condition.dataset.num_classes is not None for condition in conditions):
        return []
    return [f"{metric} needs a dataset whose entry states its classes; give num_classes or class_names there"]


def detection_problems(conditions: Sequence[Condition], metric: str) -> list[str]:
    """Return why a metric of detection cannot be computed from these conditions."""
    out = [each for each in conditions if each.dataset.is_out_of_distribution]
    if not out:
        example = "{name: o, dataset: digits-o, negatives: clean}"
        return [f"{metric} needs a condition whose examples are out of distribution; add one such as {example}"]
    return [
        f"{metric} needs the negatives of {each.name}: name a condition there, as negatives: clean"
        for each in out
        if each.negatives is None
    ]


def negatives_problem(condition: Condition, conditions: Sequence[Condition]) -> str | None:
    """Return the problem of a condition's negatives, such as missing ones."""
    is_out = condition.dataset.is_out_of_distribution
    if condition.negatives is None:
        return None
    if not is_out:
        return f"must be left out for {condition.dataset.name}, whose examples are not out of distribution"
    found = next((each for each in conditions if each.name == condition.negatives), None)
    if found is None:
        return f"must name a condition of this suite, got {condition.negatives!r}"
    declared, wanted = found.dataset, condition.dataset.class_subset
    if declared.is_out_of_distribution:
        return f"must name a condition of examples that belong to a class, got {found.name}"
    if declared.class_subset != wanted:
        mask = f"the class mask of {condition.dataset.name}"
        return f"must name a condition under {mask}, got {found.name} ({declared.name})"
    return None


def perturbation_problems(condition: Condition) -> Sequence[FieldProblem]:
    """Return why a condition's dataset cannot be perturbed as stated, each with the field of the perturbation."""
    declared = condition.dataset
    if (problems := condition.perturbation.problems_on(declared)) or not condition.perturbation.is_attack:
        return problems
    if declared.is_out_of_distribution:
        return [("", f"must be no attack on {declared.name}, whose examples belong to no class")]
    if declared.class_subset is not None:
        message = f"must be no attack on {declared.name}, whose scores are masked after the model has given them"
        return [("", message)]
    return []


def _reference_problems(family: str, types: Types, metric: Metric) -> list[str]:
    """Return why errors cannot be expressed in units of a reference's."""
    if family not in REFERENCES:
        known = ", ".join(REFERENCES)
        return [f"{metric.name} needs a reference's errors, which {known} have and {family} has not; take mean_error"]
    reference, wanted = REFERENCES[family], averaged_types(types)
    read = wanted if metric.scope == "family" else types
    if unknown := [each for each in read if each not in reference.corrupted]:
        return [f"{metric.name} needs {reference.model}'s errors under {', '.join(unknown)}; take mean_error"]
    if metric.needs_clean and (harmless := [each for each in wanted if reference.corrupted[each] <= reference.clean]):
        return [
            f"{metric.name} of {family} is undefined: {', '.join(harmless)} does not raise {reference.model}'s error"
        ]
    missing = ", ".join(each for each in wanted if each not in types)
    if metric.scope == "family" and missing:
        return [f"{metric.name} is over {len(wanted)} corruptions of {family}; add {missing}, or take mean_error"]
    return []


def _clean_of(family: str, conditions: Sequence[Condition]) -> list[Condition]:
    """Return the condition of a family's images without corruption, if any."""
    of_family = [each for each in conditions if (found := corrupted_of(each)) and found.family == family]
    datasets = {uncorrupted_of(each) for each in of_family}
    clean = [each for each in conditions if each.perturbation.is_clean and each.dataset.name in datasets]
    return clean[:1]


def _column(subject: str, family: str, metric: str, clean: Sequence[Condition], types: Types) -> Column:
    corrupted = [
        (severities[severity], Role(name="corrupted", corruption=corruption, severity=severity))
        for corruption, severities in types.items()
        for severity in sorted(severities)
    ]
    reads = [*((each, CLEAN) for each in clean), *corrupted]
    declared, averages = METRICS[metric], tuple(types)
    if not declared.takes_any_severity:
        averages = tuple(each for each in types if each in averaged_types(types))
    can_be_narrowed = declared.scope == "family" and not (declared.needs_reference or declared.needs_clean)
    return Column(
        key=f"{subject.replace(' ', '/')}/{metric}",
        label=f"{subject} {declared.title}",
        metric=metric,
        conditions=tuple(condition.name for condition, _ in reads),
        roles=tuple(role for _, role in reads),
        family=family,
        averages=averages if can_be_narrowed else (),
        group=family,
        setting=subject.removeprefix(family).strip(),
    )
