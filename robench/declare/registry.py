"""Registries: which checkpoints there are, and where their weights lie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

from annotated_types import MaxLen

from robench.core.checkpoint import PLAIN_LAYOUT, Checkpoint, Weights
from robench.core.errors import DeclarationError, did_you_mean
from robench.datasets import DATASETS
from robench.declarations.preprocessing import PreprocessingBase
from robench.declare.names import MetricName, Name, Task, known_in
from robench.declare.scalars import Checked
from robench.declare.schema import attempt, construct
from robench.declare.values import show
from robench.declare.yaml_source import read_yaml
from robench.models.base import ArchitectureBase
from robench.models.layouts import LAYOUTS
from robench.tasks import DEFAULT_TASK
from robench.training.base import TrainingBase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from robench.declare.document import Document
    from robench.declare.problems import Problem

_NOT_STATED = "not stated"


def _digest_problem(digest: object) -> str | None:
    if re.fullmatch(r"[0-9a-f]{8,64}", str(digest)):
        return None
    return f"must be 8 to 64 hexadecimal digits in lower case, or null where nobody published one, got {show(digest)}"


def _uri_problem(uri: object) -> str | None:
    scheme, colon, rest = str(uri).partition(":")
    is_path = bool(uri) and "://" not in str(uri) and not (colon and scheme == "hf-hub")
    is_hub = scheme == "hf-hub" and rest.count("/") >= 2 and all(rest.split("/"))
    if not str(uri).isprintable():
        return f"must have no control characters, got {show(uri)}"
    if is_path or is_hub:
        return None
    return f"must be a path (relative to this file, or absolute) or hf-hub:owner/repository/file, got {show(uri)}"


def _layout_problem(layout: object) -> str | None:
    return None if layout in LAYOUTS else f"unknown layout {show(layout)}.{did_you_mean(str(layout), LAYOUTS)}"


def _share_problem(share: object) -> str | None:
    if not isinstance(share, float) or 0 <= share <= 1:
        return None
    return f"must be a share in [0, 1], 0.97 for 97 per cent, got {share:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsEntry:
    """Where weights are, as it stands in a file: the digest may be null but must be there."""

    uri: Annotated[str, Checked(_uri_problem)]
    sha256: Annotated[str, Checked(_digest_problem)] | None
    how_to_get: str = ""
    layout: Annotated[str, Checked(_layout_problem)] = PLAIN_LAYOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """A checkpoint as it stands in a file, below its name."""

    architecture: ArchitectureBase
    weights: WeightsEntry
    preprocessing: PreprocessingBase
    task: Task = DEFAULT_TASK
    training_data: str = _NOT_STATED
    source: str = _NOT_STATED
    licence: str = _NOT_STATED
    expected: Mapping[MetricName, Annotated[float, Checked(_share_problem)]] = field(default_factory=dict)
    training: TrainingBase | None = None
    trained_on: str | None = None
    coupled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """A registry as it stands in a file."""

    checkpoints: Annotated[Mapping[Name, CheckpointEntry], MaxLen(10_000)]


def read_registry(path: Path) -> dict[str, Checkpoint]:
    """Return the checkpoints of a YAML file by name; relative weights are looked for beside the file.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all that is wrong with it, each problem with its line.
    """
    return registry_of(read_yaml(path), path.absolute().parent)


def registry_of(document: Document, folder: Path) -> dict[str, Checkpoint]:
    """Return the checkpoints of a document by name; ``folder`` is what their relative weights are relative to.

    Raises:
        DeclarationError: all that is wrong with it.
    """
    problems: list[Problem] = []
    entry = attempt(partial(construct, RegistryEntry), document, (), problems)
    problems += _unknown_training_data(document)
    problems += _wrongly_coupled(document, entry)
    problems += _irregular_weights(document, folder)
    checkpoints = document.settle(entry, problems).checkpoints
    return {name: _checkpoint(name, checkpoint, folder) for name, checkpoint in checkpoints.items()}


def merge(registries: Mapping[Path, Mapping[str, Checkpoint]]) -> dict[str, Checkpoint]:
    """Return all checkpoints of several files, in the order of the files.

    Raises:
        DeclarationError: two files declare the same name; the message names both.
    """
    merged: dict[str, Checkpoint] = {}
    declared_in: dict[str, Path] = {}
    for path, checkpoints in registries.items():
        for name, checkpoint in checkpoints.items():
            if name in merged:
                raise DeclarationError(
                    f"checkpoint {name!r} is declared in {declared_in[name]} and in {path}; rename one of the two"
                )
            merged[name] = checkpoint
            declared_in[name] = path
    return merged


def _checkpoint(name: str, entry: CheckpointEntry, folder: Path) -> Checkpoint:
    weights = entry.weights
    return Checkpoint(
        name=name,
        architecture=entry.architecture,
        weights=Weights(uri=weights.uri, sha256=weights.sha256, how_to_get=weights.how_to_get, layout=weights.layout),
        preprocessing=entry.preprocessing,
        task=entry.task,
        training_data=entry.training_data,
        source=entry.source,
        licence=entry.licence,
        folder=folder,
        expected=entry.expected,
        training=entry.training,
        trained_on=entry.trained_on,
        coupled=entry.coupled,
    )


def _irregular_weights(document: Document, folder: Path) -> Iterator[Problem]:
    for name in document.mapping_at("checkpoints"):
        place = ("checkpoints", name, "weights", "uri")
        uri = document.at(*place)
        if not isinstance(uri, str) or _uri_problem(uri) or uri.startswith("hf-hub:"):
            continue
        path = folder / uri
        # Weights that are not there yet are no mistake of the file.
        with suppress(OSError, ValueError):
            if path.exists() and not path.is_file() and not path.is_dir():
                yield document.problem(place, f"must be a regular file, got a pipe or a device: {show(str(path))}")


def _unknown_training_data(document: Document) -> Iterator[Problem]:
    problem_of = known_in("dataset", DATASETS)
    for name in document.mapping_at("checkpoints"):
        for below in (("trained_on",), ("training", "dataset")):
            place = ("checkpoints", name, *below)
            dataset = document.at(*place)
            if isinstance(dataset, str) and (wrong := problem_of(dataset)):
                yield document.problem(place, wrong)


def _wrongly_coupled(document: Document, entry: RegistryEntry | None) -> Iterator[Problem]:
    """Yield a problem for each entry whose ``coupled`` is not what robench knows of the architecture's rows."""
    for name, checkpoint in () if entry is None else entry.checkpoints.items():
        known = checkpoint.architecture.couples_rows
        if known is not None and checkpoint.coupled != known:
            does = "couples" if known else "does not couple"
            wrong = f"must be {str(known).lower()}: backbone {checkpoint.architecture.kind} {does} the rows of a batch"
            yield document.problem(("checkpoints", name, "coupled"), wrong)
