"""Columns over corruptions and out-of-distribution examples, and checks of their conditions.

A metric over corruptions has a column for each type, or for each family (the published files, or corruptions of one
dataset): over the clean condition, if there is one, and then five severities of each type. A metric of detection has
one for each condition that names its negatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.suite import CLEAN, MEASURED, NEGATIVES, Column, Role
from robench.datasets.corrupted import corrupted_of, uncorrupted_of
from robench.declarations.imagenet_c import SEVERITIES
from robench.metrics import METRICS, Metric
from robench.metrics.reference_errors import REFERENCES, averaged_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from robench.core.suite import Condition
    from robench.declarations.base import FieldProblem

Types = dict[str, dict[int, "Condition"]]


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
                )


def corruption_columns(conditions: Sequence[Condition], metrics: Sequence[str]) -> Iterator[Column]:
    """Yield the columns of families of corruptions by metric, followed by those of types."""
    families, names = families_of(conditions), [name for name in metrics if _is_of_corruptions(name)]
    for family, types in families.items():
        for name in names:
            if METRICS[name].scope == "family":
                yield _column(family, family, name, _clean_of(family, conditions), types)
        for corruption, severities in types.items():
            for name in names:
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
        problems += _severity_problems(family, types, metric)
        problems += _reference_problems(family, types, declared) if declared.needs_reference else []
        if declared.needs_clean and not _clean_of(family, conditions):
            problems.append(f"{metric} needs the images of {family} without corruption; add {{name: clean}}")
    return problems


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


def _severity_problems(family: str, types: Types, metric: str) -> list[str]:
    return [
        f"{metric} needs five severities of {family} {corruption}; add {', '.join(missing)}"
        for corruption, severities in types.items()
        if (missing := [str(each) for each in SEVERITIES if each not in severities])
    ]


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


def _is_of_corruptions(metric: str) -> bool:
    return METRICS[metric].scope in ("type", "family")


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
    return Column(
        key=f"{subject.replace(' ', '/')}/{metric}",
        label=f"{subject} {METRICS[metric].title}",
        metric=metric,
        conditions=tuple(condition.name for condition, _ in reads),
        roles=tuple(role for _, role in reads),
        family=family,
    )
