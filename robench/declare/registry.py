"""Registries: checkpoints and datasets by name, with the locations of their files."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from annotated_types import Ge, Lt, MaxLen

from robench.core.checkpoint import HUB, PLAIN_LAYOUT, Checkpoint, Trainer
from robench.core.declared import DatasetDeclaration
from robench.core.errors import DeclarationError, UsageError
from robench.core.providers import foreign_in
from robench.datasets import DATASETS
from robench.datasets.user import FormatBase
from robench.declarations.base import SEEDS
from robench.declarations.preprocessing import PreprocessingBase
from robench.declare.document import Document, Number, Place, Problem, declaration_error, show
from robench.declare.fields import Checked, Name, Task, WeightsEntry, digest_problem, known_in, uri_problem, values_of
from robench.declare.members import MetricName
from robench.declare.schema import attempt, construct
from robench.declare.shipped import differences, shipped_registry, with_inherited
from robench.declare.smoothing import SmoothedEntry, smoothing_problem
from robench.declare.yaml_source import read_yaml
from robench.domains import DOMAINS
from robench.metrics import METRICS, Metric
from robench.models.base import ArchitectureBase
from robench.tasks import DEFAULT_TASK
from robench.training.base import TrainingBase

T = TypeVar("T")
_NOT_STATED = "not stated"


def _score_problem(metric: Metric, value: object) -> str | None:
    score = value.nearest if isinstance(value, Number) else value
    if not isinstance(score, int | float) or isinstance(score, bool):
        return None
    if metric.unit == "share":
        return None if 0 <= score <= 1 else f"must be a proportion in [0, 1], 0.97 for 97 per cent, got {score:g}"
    if metric.may_be_negative:
        return None
    return None if score >= 0 else f"must be at least 0, got {score:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedEntry:
    """Weights of a further training of an entry in a file; everything but the seed is as in the entry.

    Attributes:
        seed: seed of the training.
        uri: location of its weights.
        sha256: their checksum.
        expected: its published scores, as those of the entry.
        by: who trained them; null for the trainer of the entry's weights.
    """

    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    uri: Annotated[str, Checked(uri_problem)]
    sha256: Annotated[str, Checked(digest_problem)] | None
    expected: Mapping[MetricName, float] = field(default_factory=dict)
    by: Trainer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """Entry of a checkpoint in a file, below its name.

    Attributes:
        architecture: backbone that the weights fit.
        weights: location, checksum and layout of the weights.
        preprocessing: conversion of inputs before the first layer.
        task: task of the model.
        training_data: description of the data that the weights were trained on, for readers.
        source: origin of the weights, for readers.
        licence: licence of the weights, for readers.
        paper, code: where the model was published, for readers; http and https addresses become links.
        expected: published scores by metric, proportions in [0, 1], for comparison with runs.
        training: recipe with which ``robench train`` makes the weights; null without one.
        trained_on: name of the training dataset, which ``expected`` is about.
        coupled: whether rows of a batch may influence each other, so that numbers hold at their batch size only.
        patches: whether the model's own code may replace functions of torch and numpy; it is then measured alone in its
            process.
        seeds: further trainings of the same entry, with other seeds.
        of: entry of the shipped registry to which these weights belong; architecture, preprocessing, task, data and
            recipe are inherited, so that they are left out here.
        like: entry of this file or of the shipped registry, whose architecture, preprocessing, task, data and recipe
            are taken where they are not stated here; of architecture and training also single fields.
        seed: seed of the training of these weights, with ``of``; null for that of the shipped entry.
        smoothed: entry of this file or of the shipped registry whose model this is under Gaussian noise; everything
            else is that entry's, and is left out here.
    """

    architecture: ArchitectureBase
    weights: WeightsEntry
    preprocessing: PreprocessingBase
    task: Task = DEFAULT_TASK
    training_data: str = _NOT_STATED
    source: str = _NOT_STATED
    licence: str = _NOT_STATED
    paper: str = ""
    code: str = ""
    expected: Mapping[MetricName, float] = field(default_factory=dict)
    training: TrainingBase | None = None
    trained_on: str | None = None
    coupled: bool = False
    patches: bool = False
    seeds: Annotated[tuple[SeedEntry, ...], MaxLen(1_000)] = ()
    of: str | None = None
    like: str | None = None
    seed: Annotated[int | None, Ge(0), Lt(SEEDS)] = None
    smoothed: SmoothedEntry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """Entry of a whole registry in a file.

    Attributes:
        checkpoints: entries of checkpoints by name.
        datasets: formats of datasets by name.
    """

    checkpoints: Annotated[Mapping[Name, CheckpointEntry], MaxLen(10_000)] = field(default_factory=dict)
    datasets: Annotated[Mapping[Name, FormatBase], MaxLen(10_000)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Checkpoints and datasets by name.

    Attributes:
        broken: error of each entry that was left out, by section (``checkpoints`` or ``datasets``) and name.
    """

    checkpoints: Mapping[str, Checkpoint]
    datasets: Mapping[str, DatasetDeclaration]
    broken: Mapping[tuple[str, str], DeclarationError] = field(default_factory=dict)


def read_registry(path: Path) -> dict[str, Checkpoint]:
    """Return the checkpoints of a YAML file by name; relative weights are resolved against the file's folder.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all problems of the file, each problem with its line.
    """
    return dict(registry_of(read_yaml(path), path.absolute().parent).checkpoints)


def registry_of(document: Document, folder: Path, known: Collection[str] = ()) -> Registry:
    """Return the checkpoints and datasets of a document; relative paths are below ``folder``.

    ``known`` are the names of datasets of other registries, valid for ``trained_on``.

    Raises:
        DeclarationError: all problems of the file.
    """
    document = with_inherited(document)
    problems, registry = _examined(document, folder, known)
    return document.settle(registry, problems)


def sound_part_of(document: Document, folder: Path, known: Collection[str] = ()) -> Registry:
    """Return the entries of a document that have no problem, with the errors of the others in ``broken``.

    Arguments as in ``registry_of``.

    Raises:
        DeclarationError: a problem is of no single entry.
    """
    document = with_inherited(document)
    problems, registry = _examined(document, folder, known)
    found = [*document.problems, *problems]
    by_entry: dict[tuple[str, str], list[Problem]] = {}
    for problem in found:
        section, name = (*problem.place, "", "")[:2]
        if section not in {each.name for each in fields(RegistryEntry)} or not isinstance(name, str) or not name:
            return document.settle(None, problems)
        by_entry.setdefault((str(section), name), []).append(problem)
    if not found:
        return document.settle(registry, ())
    rest = without(document, by_entry)
    broken = {entry: declaration_error(document.source, listed) for entry, listed in by_entry.items()}
    # What refers to an entry that is left out is as broken as it was.
    others = {name for section, name in broken if section == "datasets"}
    sound = sound_part_of(rest, folder, {*known, *others})
    return replace(sound, broken={**broken, **sound.broken})


def without(document: Document, entries: Collection[tuple[str, str]]) -> Document:
    """Return a document without some entries; sections that are empty then are kept."""
    value = {
        section: {name: entry for name, entry in listed.items() if (section, name) not in entries}
        if isinstance(listed, dict)
        else listed
        for section, listed in document.mapping_at().items()
    }
    return replace(document, value=value, problems=())


def _examined(document: Document, folder: Path, known: Collection[str]) -> tuple[list[Problem], Registry | None]:
    """Return the problems of a registry's fields, and the registry if there are none."""
    problems: list[Problem] = []
    entry = attempt(partial(construct, RegistryEntry), document, (), problems)
    entries = {} if entry is None else entry.checkpoints
    problems += _missing(document)
    problems += _taken_names(document)
    problems += _unknown_training_data(document, known)
    problems += _wrongly_coupled(document, entries)
    problems += _needlessly_patching(document, entries)
    problems += _training_problems(document, entries)
    problems += _wrong_seeds(document, entries)
    problems += _seeds_of_no_entry(document, entries)
    for name, each in entries.items():
        problems += [] if each.of is None else differences(document, name, each.of, each)
    problems += _wrong_scores(document)
    problems += _unsmooth(document, entries)
    problems += _irregular_weights(document, folder)
    datasets: dict[str, DatasetDeclaration] = {}
    for name, content in () if entry is None else entry.datasets.items():
        try:
            datasets[name] = content.declared(name, folder)
        except (DeclarationError, UsageError) as error:
            problems.append(document.problem(("datasets", name), str(error)))
    if entry is None or problems or document.problems:
        return problems, None
    file = folder / Path(document.source).name
    registry = None if file == shipped_registry() else file
    trainings = (each for name, entry in entries.items() for each in _trainings(name, entry, folder, registry))
    return problems, Registry(checkpoints={each.name: each for each in trainings}, datasets=datasets)


def merge(registries: Mapping[Path, Mapping[str, T]], noun: str = "checkpoint") -> dict[str, T]:
    """Return all checkpoints, or all datasets, of several files, in the order of the files.

    Raises:
        DeclarationError: two files declare the same name; the message names both.
    """
    merged: dict[str, T] = {}
    hint = ", with 'of' if its weights are those of a shipped entry" if noun == "checkpoint" else ""
    declared_in: dict[str, Path] = {}
    for path, declared in registries.items():
        for name, each in declared.items():
            if name in merged:
                raise DeclarationError(
                    f"{noun} {name!r} is declared in {declared_in[name]} and in {path}; rename one of the two{hint}"
                )
            merged[name] = each
            declared_in[name] = path
    return merged


def _trainings(name: str, entry: CheckpointEntry, folder: Path, registry: Path | None) -> Iterator[Checkpoint]:
    """Yield the checkpoint of an entry, and those of its further seeds."""
    shared = values_of(entry, "weights", "seeds", "of", "like", "seed", "smoothed")
    shared["smoothing"] = None if entry.smoothed is None else entry.smoothed.smoothing
    shared |= {"folder": folder, "registry": registry, "belongs_to": entry.of}
    own = Checkpoint(name=name, weights=entry.weights.declared, **shared)
    yield own
    for each in entry.seeds:
        weights = replace(
            own.weights,
            uri=each.uri,
            sha256=each.sha256,
            layout=PLAIN_LAYOUT,
            key="",
            prefix="",
            by=each.by or own.weights.by,
        )
        yield own.retrained(each.seed, weights, each.expected)


def _irregular_weights(document: Document, folder: Path) -> Iterator[Problem]:
    places: list[Place] = []
    for name in document.mapping_at("checkpoints"):
        seeds = ("checkpoints", name, "seeds")
        others = (("initial_weights",), ("vocabulary",), ("teacher", "weights"))
        places.append(("checkpoints", name, "weights", "uri"))
        places += [("checkpoints", name, "training", *below, "uri") for below in others]
        places += [(*seeds, index, "uri") for index, _ in enumerate(document.list_at(*seeds))]
    for place in places:
        uri = document.at(*place)
        if not isinstance(uri, str) or uri_problem(uri) or uri.startswith(HUB):
            continue
        path = folder / uri
        # Missing weights are not a mistake of the file.
        with suppress(OSError, ValueError):
            if path.exists() and not path.is_file() and not path.is_dir():
                yield document.problem(place, f"must be a regular file, got a pipe or a device: {show(str(path))}")


def _wrong_seeds(document: Document, entries: Mapping[str, CheckpointEntry]) -> Iterator[Problem]:
    """Yield a problem for each duplicate seed, and for seeds of entries that robench cannot train."""
    for name, checkpoint in entries.items():
        place: Place = ("checkpoints", name, "seeds")
        if not checkpoint.seeds:
            continue
        if checkpoint.training is None:
            yield document.problem(place, "need a training recipe; add training, or remove seeds")
            continue
        taken = {checkpoint.training.seed}
        for index, each in enumerate(checkpoint.seeds):
            if each.seed in taken:
                wrong = f"seed {each.seed} is that of training or of another item; each must be another one"
                yield document.problem((*place, index, "seed"), wrong)
            taken.add(each.seed)


def _seeds_of_no_entry(document: Document, entries: Mapping[str, CheckpointEntry]) -> Iterator[Problem]:
    for name, checkpoint in entries.items():
        if checkpoint.seed is not None and (checkpoint.of is None or checkpoint.training is None):
            wrong = "needs a shipped entry with a recipe; add the name of one, or state the seed in training"
            yield document.problem(("checkpoints", name, "seed"), wrong)


def _wrong_scores(document: Document) -> Iterator[Problem]:
    """Yield a problem for each expected score out of the bounds of its metric's unit."""
    for name in document.mapping_at("checkpoints"):
        seeds = ("checkpoints", name, "seeds")
        for of in (("checkpoints", name), *((*seeds, index) for index, _ in enumerate(document.list_at(*seeds)))):
            for metric, score in document.mapping_at(*of, "expected").items():
                if metric in METRICS and (problem := _score_problem(METRICS[metric], score)):
                    yield document.problem((*of, "expected", metric), problem)


def _missing(document: Document) -> Iterator[Problem]:
    given = document.mapping_at().keys()
    named = [each.name for each in fields(RegistryEntry)]
    # A misspelt name is a single mistake, and reported as such.
    if isinstance(document.value, dict) and not any(get_close_matches(name, given) for name in named):
        yield document.problem((named[0],), f"missing; declare {' or '.join(named)}, or both")


def _taken_names(document: Document) -> Iterator[Problem]:
    for name in document.mapping_at("datasets"):
        if name in DATASETS:
            owners = [claim.owner for claim in DATASETS.claims_of(name)] or ["robench"]
            message = f"there is a dataset of this name in {owners[0]} already; give yours another name"
            yield document.problem(("datasets", name), message)


OWN_DATA = (
    "{!r} is a dataset of a registry file, and robench trains on its own datasets alone; train the model by a"
    " script of your own, and leave training out"
)


def _unknown_training_data(document: Document, known: Collection[str]) -> Iterator[Problem]:
    problem_of = known_in("dataset", DATASETS)
    users = {*known, *document.mapping_at("datasets")}
    for name in document.mapping_at("checkpoints"):
        for below in (("trained_on",), ("training", "dataset")):
            place = ("checkpoints", name, *below)
            dataset = document.at(*place)
            if not isinstance(dataset, str) or not (wrong := problem_of(dataset)):
                continue
            if dataset not in users:
                yield document.problem(place, wrong)
            elif below != ("trained_on",):
                yield document.problem(place, OWN_DATA.format(dataset))


def _training_problems(document: Document, entries: Mapping[str, CheckpointEntry]) -> Iterator[Problem]:
    """Yield the problems of trainings on inputs of their entry's domain."""
    for name, checkpoint in entries.items():
        domain = DOMAINS.get(checkpoint.preprocessing.domain)
        if checkpoint.training is not None and domain is not None:
            for field_name, message in checkpoint.training.problems_in(domain):
                yield document.problem(("checkpoints", name, "training", field_name), message)


def _wrongly_coupled(document: Document, entries: Mapping[str, CheckpointEntry]) -> Iterator[Problem]:
    """Yield a problem for each entry whose ``coupled`` contradicts the known architecture."""
    for name, checkpoint in entries.items():
        known = checkpoint.architecture.couples_rows
        if known is not None and checkpoint.coupled != known:
            does = "couples" if known else "does not couple"
            wrong = f"must be {str(known).lower()}: backbone {checkpoint.architecture.kind} {does} the rows of a batch"
            yield document.problem(("checkpoints", name, "coupled"), wrong)


def _unsmooth(document: Document, entries: Mapping[str, CheckpointEntry]) -> Iterator[Problem]:
    for name, each in entries.items():
        if each.smoothed and (wrong := smoothing_problem(each.task, each.preprocessing, coupled=each.coupled)):
            yield document.problem(("checkpoints", name, "smoothed", "checkpoint"), wrong)


def _needlessly_patching(document: Document, entries: Mapping[str, CheckpointEntry]) -> Iterator[Problem]:
    """Yield a problem for each entry with ``patches`` whose model has no code but robench's."""
    for name, checkpoint in entries.items():
        architecture = checkpoint.architecture
        if checkpoint.patches and not architecture.runs_user_code and foreign_in(architecture) is None:
            wrong = f"must be false: backbone {architecture.kind} is robench's, which replaces no function"
            yield document.problem(("checkpoints", name, "patches"), wrong)
