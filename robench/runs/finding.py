"""Data and weights of a run: every dataset opened as every model needs it, and every file of weights found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from robench.attacks.backends.installed import check_installed
from robench.core.checkpoint import Checkpoint
from robench.core.declared import DatasetDeclaration, Declaration
from robench.core.errors import MissingDataError, WeightsError
from robench.core.library_watch import LibraryWatch
from robench.core.protocols import Dataset
from robench.datasets import open_dataset
from robench.models.loading import resolve
from robench.models.precision import check_device
from robench.runs.devices import Workers, choose_workers
from robench.runs.request import RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Data and weights of a run.

    Attributes:
        workers: those of the requested devices.
        watch: comparison of functions of libraries, begun before any code of others ran.
        opened: datasets by declaration and preprocessing of a model.
        files: file or folder of weights of each model, None for a module in memory, and their digest.
    """

    request: RunRequest
    workers: Workers
    watch: LibraryWatch
    opened: Mapping[tuple[DatasetDeclaration, Declaration], Dataset] = field(repr=False)
    files: Mapping[str, tuple[Path | None, str]]

    def datasets_of(self, preprocessing: Declaration) -> dict[DatasetDeclaration, Dataset]:
        """Return the datasets as a model with a preprocessing needs them."""
        return {each: self.opened[each, preprocessing] for each in self.request.datasets}

    def digest_of(self, checkpoint: Checkpoint) -> str:
        """Return the digest of a model's weights; of a module in memory the one with which it was chosen."""
        return self.files[checkpoint.name][1]


def find(request: RunRequest) -> Found:
    """Open every dataset, and find and digest all weights; all that is missing is named at once.

    Raises:
        UsageError: no such device, no such precision there, or a library that runs attacks is not installed.
        MissingDataError: a dataset was not found.
        WeightsError: weights are missing, or differ from the registry's.
    """
    workers = choose_workers(request.device, request.workers, request.executor, request.shard_timeout)
    for device in workers.devices:
        check_device(request.precision, torch.device(device))
    watch = LibraryWatch()
    for condition in request.conditions:
        check_installed(condition.perturbation.backend)
    opened: dict[tuple[DatasetDeclaration, Declaration], Dataset] = {}
    files: dict[str, tuple[Path | None, str]] = {}
    problems: dict[str, MissingDataError | WeightsError] = {}
    for checkpoint in request.checkpoints:
        try:
            known = checkpoint.weights.sha256 if checkpoint.name in request.modules else None
            files[checkpoint.name] = resolve(checkpoint) if known is None else (None, known)
        except WeightsError as error:
            problems[str(error)] = error
        for declared in request.datasets:
            key = declared, checkpoint.preprocessing
            try:
                opened[key] = opened.get(key) or open_dataset(
                    declared, data_root=request.data_root, preprocessing=checkpoint.preprocessing
                )
            except MissingDataError as error:
                problems[str(error)] = error
    if problems:
        lines = [line for problem in problems.values() for line in problem.lines]
        raise type(next(iter(problems.values())))(*lines)
    return Found(request=request, workers=workers, watch=watch, opened=opened, files=files)
