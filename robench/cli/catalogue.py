"""Everything that can be named on the command line, as plain values: the same for ``list`` and ``show``."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

from robench.attention import ATTENTIONS
from robench.core.identity import Plain, to_plain
from robench.datasets import DATASETS
from robench.declare import find_suite, read_registries, shipped_suites
from robench.metrics import METRICS
from robench.perturbations import PERTURBATIONS
from robench.perturbations.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from robench.core.suite import Suite
    from robench.declarations.base import DeclarationBase

Entry = dict[str, Plain]


def _models(registries: Sequence[Path]) -> list[Entry]:
    return [
        {
            "name": checkpoint.name,
            "summary": f"{checkpoint.training_data}; {checkpoint.source}",
            "task": checkpoint.task,
            "architecture": to_plain(checkpoint.architecture),
            "weights": to_plain(checkpoint.weights),
            "preprocessing": to_plain(checkpoint.preprocessing),
            "training_data": checkpoint.training_data,
            "trained_on": checkpoint.trained_on,
            "source": checkpoint.source,
            "licence": checkpoint.licence,
            "expected": to_plain(checkpoint.expected),
            "training": to_plain(checkpoint.training),
            "coupled": checkpoint.coupled,
        }
        for checkpoint in read_registries(registries).values()
    ]


def _suites(registries: Sequence[Path]) -> list[Entry]:
    return [_suite(find_suite(name), path) for name, path in shipped_suites().items()]


def _suite(suite: Suite, path: Path) -> Entry:
    return {
        "name": suite.name,
        "summary": suite.description,
        "version": suite.version,
        "seed": suite.seed,
        "task": suite.task,
        "batch_size": suite.batch_size,
        "conditions": [
            {
                "name": condition.name,
                "dataset": condition.dataset,
                "perturbation": to_plain(condition.perturbation),
                "num_examples": condition.num_examples,
                **({"batch_dependent": attack} if (attack := condition.perturbation.batch_dependence) else {}),
            }
            for condition in suite.conditions
        ],
        "metrics": list(suite.metrics),
        "columns": [column.key for column in suite.columns],
        "file": str(path),
    }


def _declared(declarations: Mapping[str, type[DeclarationBase]]) -> list[Entry]:
    return [
        {
            "name": name,
            "summary": (inspect.getdoc(declaration) or "").split("\n\n")[0].replace("\n", " "),
            "description": inspect.getdoc(declaration) or "",
            "version": declaration.version,
            "fields": _fields(declaration),
        }
        for name, declaration in declarations.items()
    ]


def _fields(declaration: type[DeclarationBase]) -> Entry:
    hints = get_type_hints(declaration)
    described: Entry = {}
    for field in dataclasses.fields(declaration):  # type: ignore[arg-type]  # every declaration is a dataclass
        hint = hints[field.name]
        field_type = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        described[field.name] = {"type": field_type, "required": is_required}
        if field.default is not dataclasses.MISSING:
            described[field.name] = {"type": field_type, "required": False, "default": to_plain(field.default)}
    return described


def _datasets(registries: Sequence[Path]) -> list[Entry]:
    return [
        {"name": name, "summary": declared.title, **_without_kind(to_plain(declared))}
        for name, declared in DATASETS.items()
    ]


def _without_kind(plain: Plain) -> Entry:
    assert isinstance(plain, dict)
    return {name: value for name, value in plain.items() if name not in ("kind", "name", "maker")}


def _metrics(registries: Sequence[Path]) -> list[Entry]:
    return [
        {"name": name, "summary": metric.title, **_without_kind(to_plain(dataclasses.asdict(metric)))}
        for name, metric in METRICS.items()
    ]


# Kind of thing to a function from further registry files to its entries, each with `name` and `summary`.
CATALOGUE: Mapping[str, Callable[[Sequence[Path]], list[Entry]]] = {
    "models": _models,
    "suites": _suites,
    "attacks": lambda registries: _declared({**PERTURBATIONS, Sweep.kind: Sweep}),
    "datasets": _datasets,
    "attentions": lambda registries: _declared(ATTENTIONS),
    "metrics": _metrics,
}
