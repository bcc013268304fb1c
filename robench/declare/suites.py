"""Reader of suites: conditions, metrics and the columns that follow from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import ValidationError

from robench.core.declared import DatasetDeclaration
from robench.core.errors import UnknownNameError, UsageError
from robench.core.suite import Column, Condition, Suite
from robench.datasets import DATASETS
from robench.datasets.base import stand_in
from robench.declarations.base import LARGEST, SEEDS, PerturbationBase
from robench.declare.columns import (
    class_problems,
    columns_of,
    corruption_problems,
    detection_problems,
    distance_problems,
    negatives_problem,
    num_examples_of,
    perturbation_problems,
    search_problems,
    threat_problems,
)
from robench.declare.document import Document, Place, Problem, document_from_python, show
from robench.declare.fields import DomainName, Name, RefusedError, Task, known_in, values_of
from robench.declare.members import MetricEntry, metric_name
from robench.declare.schema import LONGEST, attempt, construct
from robench.declare.yaml_source import read_yaml
from robench.domains import DOMAINS
from robench.metrics import METRICS
from robench.perturbations import Clean
from robench.tasks import TASKS

Datasets = Mapping[str, DatasetDeclaration]

# The shipped suites have up to a hundred conditions, published data up to 10^7 examples.
Count = Annotated[int, Ge(1), Le(LARGEST)]
# Every forward pass has this many rows, padded if there are fewer examples.
BatchSize = Annotated[int, Ge(1), Le(65_536)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionEntry:
    """Entry of a condition in a file.

    Attributes:
        name: name of the condition, unique in the suite, as in columns.
        dataset: name of its dataset; null for the suite's.
        num_examples: number of examples, from the first; null for all.
        num_predictions: number of predictions per input, each with draws of its own; more than 1 for models that draw
            random numbers.
        distances: for minimum-norm attacks, the distances at which accuracy is reported, in pixel units; for clean
            examples the radii in l2 of certified accuracy.
        negatives: for out-of-distribution examples, the name of the condition with the in-distribution ones.
        perturbation: perturbation of the examples.
    """

    name: Name
    dataset: str | None = None
    num_examples: Annotated[int | None, Ge(1), Le(1000 * LARGEST)] = None
    num_predictions: Annotated[int, Ge(1), Le(10_000)] = 1
    distances: tuple[Annotated[Fraction, Gt(0), Le(LARGEST)], ...] = ()
    negatives: Name | None = None
    perturbation: PerturbationBase = field(default_factory=Clean)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """Entry of a suite in a file; ``dataset`` is the default of its conditions.

    A suite without any dataset has a ``task`` instead, and is measured on the dataset given to it. It may have a
    ``domain`` too, which that dataset must have.

    Attributes:
        name: name of the suite, as in reports.
        version: raised when the suite changes.
        seed: root of all random numbers.
        batch_size: number of rows of every forward pass; part of every key.
        conditions: conditions to measure.
        metrics: names of metrics, or ``{kind: python, target: my_module:MY_METRIC}``.
        dataset: name of the dataset of all conditions that name none.
        task: task of a suite that names no dataset; ``domain``: the domain of its inputs, null for any; perturbations
            are then checked as on images until a dataset is given.
        batches_per_shard: number of batches of one shard, the unit that is stored.
        audit: whether models are audited first, if the suite has attacks.
        columns: keys of the suite's columns, among all that follow from its conditions and metrics; empty for all.
            p-values are corrected for their number.
        description: one line for ``robench list suites``.
    """

    name: Name
    version: Count
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    batch_size: BatchSize
    conditions: Annotated[tuple[ConditionEntry, ...], MinLen(1)]
    metrics: Annotated[tuple[MetricEntry, ...], MinLen(1)]
    dataset: str | None = None
    task: Task | None = None
    domain: DomainName | None = None
    batches_per_shard: Count = 1
    audit: bool = True
    columns: tuple[str, ...] = ()
    description: str = ""


def read_suite(path: Path, datasets: Datasets = DATASETS, dataset: str | None = None) -> Suite:
    """Return the suite of a YAML file; see ``suite_of``.

    Raises:
        UsageError: there is no such file, or see ``suite_of``.
        DeclarationError: all problems of the file, each with its line.
    """
    return suite_of(read_yaml(path), datasets, dataset)


def parse_suite(value: object, source: str = "suite") -> Suite:
    """Return the suite described by a mapping, in the format of YAML files; ``source`` is its name in messages.

    Raises:
        DeclarationError: all problems of the suite.
    """
    return suite_of(document_from_python(value, source))


def suite_of(document: Document, datasets: Datasets = DATASETS, dataset: str | None = None) -> Suite:
    """Return the suite of a document.

    ``dataset`` is the name of the dataset for a suite that names none; None for a stand-in.

    Raises:
        DeclarationError: all problems of the suite.
        UnknownNameError: there is no dataset of the given name.
        UsageError: a dataset is given, but the suite names its own; or it is of another task.
    """
    problems: list[Problem] = []
    entry = attempt(partial(construct, SuiteEntry), document, (), problems)
    problems += _unknown_datasets(document, datasets)
    if document.at("domain") is not None and document.at("task") is None:
        problems.append(document.problem(("domain",), "must be left out with a dataset, which has its own"))
    names_none = _names_no_dataset(document)
    conditions = _readable_conditions(document, datasets, _default_dataset(document, datasets, dataset))
    problems += _condition_problems(document, conditions)
    problems += _metric_problems(document, conditions)
    entry = document.settle(entry, problems)
    if dataset is not None and not names_none:
        raise UsageError(
            f"suite {entry.name!r} names its datasets: --dataset is for suites that name none, such as pgd-standard"
        )
    return Suite(
        **values_of(entry, "task", "domain", "conditions", "dataset", "columns"),
        task=entry.task or conditions[0].dataset.task,
        conditions=tuple(conditions.values()),
        columns=_columns(document, entry, tuple(conditions.values())),
        lacks_dataset=names_none and dataset is None,
        given_dataset=dataset,
    )


def _columns(document: Document, entry: SuiteEntry, conditions: tuple[Condition, ...]) -> tuple[Column, ...]:
    """Return the columns that a suite names, in their usual order, or all."""
    columns = columns_of(conditions, entry.metrics)
    problem_of = known_in("column", {column.key: column for column in columns})
    wrong = [(place, problem_of(key)) for place, key in enumerate(entry.columns)]
    document.settle(entry, [document.problem(("columns", place), text) for place, text in wrong if text])
    return tuple(column for column in columns if not entry.columns or column.key in entry.columns)


def _unknown_datasets(document: Document, datasets: Datasets) -> Iterator[Problem]:
    problem_of = known_in("dataset", datasets)
    for place in _dataset_places(document):
        name = document.at(*place)
        if isinstance(name, str) and (wrong := problem_of(name)):
            yield document.problem(place, wrong)


def _names_no_dataset(document: Document) -> bool:
    """Return whether a suite has a task instead of a dataset, so that it can be run on any dataset of that task."""
    return document.at("task") is not None and all(document.at(*place) is None for place in _dataset_places(document))


def _dataset_places(document: Document) -> list[Place]:
    """Return the places of the suite's dataset, and of those of conditions."""
    return [("dataset",), *(("conditions", index, "dataset") for index in range(_num_conditions(document)))]


def _default_dataset(document: Document, datasets: Datasets, given: str | None) -> DatasetDeclaration | None:
    """Return the default dataset of conditions: the suite's own, the given one, or a stand-in."""
    task, domain, name = document.at("task"), document.at("domain"), document.at("dataset")
    if not _names_no_dataset(document):
        return datasets[name] if isinstance(name, str) and not known_in("dataset", datasets)(name) else None
    if given is None:
        return stand_in(str(task), str(domain)) if domain in DOMAINS else stand_in(str(task))
    if given not in datasets:
        raise UnknownNameError("dataset", given, datasets, "Others can be added with a registry file (--registry).")
    if datasets[given].task != task:
        raise UsageError(f"{document.source} is for {task}, but dataset {given!r} is for {datasets[given].task}")
    if domain not in (None, datasets[given].domain):
        raise UsageError(f"{document.source} is for {domain}, but dataset {given!r} is of {datasets[given].domain}")
    return datasets[given]


def _num_conditions(document: Document) -> int:
    """Return the number of conditions to read; 0 if there are too many, which is a separate problem."""
    count = len(document.list_at("conditions"))
    return count if count <= LONGEST else 0


def _readable_conditions(
    document: Document, datasets: Datasets, default: DatasetDeclaration | None
) -> dict[int, Condition]:
    """Return the well-formed conditions by position, so that mistakes in others do not hide theirs."""
    conditions: dict[int, Condition] = {}
    problem_of = known_in("dataset", datasets)
    for index in range(_num_conditions(document)):
        entry = attempt(partial(construct, ConditionEntry), document, ("conditions", index), [])
        if entry is None or (entry.dataset is not None and problem_of(entry.dataset)):
            continue
        declared = default if entry.dataset is None else datasets[entry.dataset]
        if declared is not None:
            conditions[index] = Condition(dataset=declared, **values_of(entry, "dataset"))
    return conditions


def _condition_problems(document: Document, conditions: Mapping[int, Condition]) -> Iterator[Problem]:
    yield from _repeated(document, "conditions", "name")
    yield from _missing_datasets(document)
    measured: dict[object, str] = {}
    for index, condition in conditions.items():
        identity = (condition.dataset.name, condition.perturbation_key, num_examples_of(condition))
        first = measured.setdefault(identity, condition.name)
        if first != condition.name:
            message = f"{condition.name} measures exactly what {first} measures; keep one"
            yield document.problem(("conditions", index), message)
        for message in distance_problems(condition):
            yield document.problem(("conditions", index, "distances"), message)
        if wrong := negatives_problem(condition, tuple(conditions.values())):
            yield document.problem(("conditions", index, "negatives"), wrong)
        for place, message in perturbation_problems(condition):
            # A dotted field, such as ``epsilons.1``; empty for the whole.
            steps = (int(part) if part.isdigit() else part for part in place.split(".") if part)
            yield document.problem(("conditions", index, "perturbation", *steps), message)
    yield from _task_problems(document, conditions)


def _missing_datasets(document: Document) -> Iterator[Problem]:
    unknown = document.mapping_at().keys() - {declared.name for declared in fields(SuiteEntry)}
    if document.at("dataset") is not None or _names_no_dataset(document) or get_close_matches("dataset", unknown):
        # It is present, or misspelt, which is a single mistake and reported as such.
        return
    items = document.list_at("conditions")
    without = [index for index, item in enumerate(items) if isinstance(item, dict) and item.get("dataset") is None]
    if without and len(without) == len(items):
        yield document.problem(
            ("dataset",),
            ("missing; name one for the whole suite, or one in each condition; or state task, for any dataset of it"),
        )
        return
    for index in without:
        message = "missing; name one here, or one for the whole suite"
        yield document.problem(("conditions", index, "dataset"), message)


def _task_problems(document: Document, conditions: Mapping[int, Condition]) -> Iterator[Problem]:
    tasks = {index: condition.dataset.task for index, condition in conditions.items()}
    stated = document.at("task")
    wanted = stated if isinstance(stated, str) else next(iter(tasks.values()), None)
    for index, task in tasks.items():
        if task != wanted:
            where = "in the suite" if stated is not None else "in the conditions before"
            message = f"must be a dataset of the task {wanted} as {where}, got one of {task}"
            yield document.problem(("conditions", index, "dataset"), message)
    for index, condition in conditions.items():
        declared = condition.dataset
        for noun, name, known in (("task", declared.task, TASKS), ("domain", declared.domain, DOMAINS)):
            if name not in known and name != stated:
                advice = "install the distribution that has it"
                message = f"must be a dataset of a known {noun}, got one of {name}: {advice}"
                yield document.problem(("conditions", index, "dataset"), message)
    for index, name in _known_metrics(document).items():
        if wanted is not None and METRICS[name].task != wanted:
            message = f"must be a metric of the task {wanted}, got {name}, one of {METRICS[name].task}"
            yield document.problem(("metrics", index), message)


def _metric_problems(document: Document, conditions: Mapping[int, Condition]) -> Iterator[Problem]:
    yield from _repeated(document, "metrics", name_of=lambda value: _metric_name(value) or value)
    if len(conditions) < len(document.list_at("conditions")) or not conditions:
        # Missing attacks or clean conditions are checked only once all conditions can be read.
        return
    for index, name in _known_metrics(document).items():
        stopping = [each.name for each in conditions.values() if not each.perturbation.keeps_scores]
        if METRICS[name].reads_scores and stopping:
            message = f"{name} cannot be computed with early stopping, as in {', '.join(stopping)}; leave it out"
            yield document.problem(("metrics", index), message)
        for message in _SCOPE_PROBLEMS[METRICS[name].scope](tuple(conditions.values()), name):
            yield document.problem(("metrics", index), message)


# Checks that a suite's conditions support the metrics of each scope.
_SCOPE_PROBLEMS: Mapping[str, Callable[[Sequence[Condition], str], list[str]]] = {
    "condition": lambda conditions, metric: [],
    "threat-model": threat_problems,
    "search": search_problems,
    "distance": search_problems,
    "radius": search_problems,
    "class": class_problems,
    "type": corruption_problems,
    "family": corruption_problems,
    "detection": detection_problems,
}


def _known_metrics(document: Document) -> dict[int, str]:
    """Return the known metrics, each once, by position."""
    names = document.list_at("metrics")
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if (known := _metric_name(name)) is not None:
            first.setdefault(known, index)
    return {index: name for name, index in first.items()}


def _metric_name(value: object) -> str | None:
    """Return the name of a known metric given in any form; None if it is unknown."""
    try:
        return str(metric_name(value))
    except (RefusedError, ValidationError):
        return None


def _repeated(
    document: Document, items: str, *below: str, name_of: Callable[[object], object] = lambda value: value
) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index in range(len(document.list_at(items))):
        name = name_of(document.at(items, index, *below))
        if isinstance(name, str) and first.setdefault(name, index) != index:
            message = f"{show(name)} is given twice, first as {items}[{first[name]}]; give them different names"
            yield document.problem((items, index, *below), message)
