"""Everything that can be wrong with weights and data is found here, before the first shard is measured."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from robench.core.errors import ExampleError, MissingDataError, UsageError, WeightsError
from robench.core.shard import Measurement
from robench.datasets import open_dataset
from robench.declarations.architectures import Python
from robench.declarations.datasets import DATASETS
from robench.evaluation import Evaluator
from robench.models import code_digest, load_victim, resolve
from robench.perturbations.backends.installed import check_installed
from robench.reports import build_report, needs
from robench.runs.devices import choose_workers
from robench.scheduling import ProcessExecutor, Progress, SerialExecutor, measure, missing, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robench.core.checkpoint import Checkpoint
    from robench.core.protocols import Dataset, Declaration, Executor, Store
    from robench.core.report import Report
    from robench.core.shard import DatasetIdentity, Shard
    from robench.core.suite import Suite
    from robench.runs.request import RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run whose weights and data were found to be what they should be."""

    request: RunRequest
    measurements: Mapping[str, tuple[Measurement, ...]]
    shards: tuple[Shard, ...]

    def todo(self, store: Store) -> list[Shard]:
        """Return the shards that ``store`` lacks."""
        return missing(self.shards, store)

    def executor(self) -> Executor:
        """Return what measures the shards on the devices asked for."""
        request = self.request
        workers = choose_workers(request.device, request.workers, request.executor)
        evaluators = [
            Evaluator(
                device=device,
                data_root=request.data_root,
                decode_workers=workers.decode_workers,
                limit=request.limit,
            )
            for device in workers.devices
        ]
        return SerialExecutor(evaluators[0]) if workers.in_process else ProcessExecutor(evaluators)

    def measure(
        self, store: Store, executor: Executor, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> Progress:
        """Measure what ``store`` lacks and keep it there."""
        return measure(list(self.shards), executor, store, on_progress)

    def report(self, suite: Suite, store: Store) -> Report:
        """Return the table of ``suite`` for the models of this run, from what ``store`` holds."""
        seed = suite.seed if self.request.seed is None else self.request.seed
        keys: dict[str, set[str]] = {}
        for measurement in self.measurements[suite.name]:
            keys.setdefault(measurement.checkpoint.name, set()).add(measurement.key)
        return build_report(
            suite,
            store.records(needs(suite, seed=seed)),
            store.failures(),
            models=[checkpoint.name for checkpoint in self.request.checkpoints],
            limit=self.request.limit,
            measurements=keys,
            seed=seed,
        )


def prepare(request: RunRequest) -> PreparedRun:
    """Find and check the data and the weights of every model, and cut what was asked for into shards.

    Raises:
        UsageError: no such device, a library that runs attacks is not installed, or a model does not fit a dataset.
        MissingDataError: a dataset is not there.
        WeightsError: weights are missing, or not what the registry says.
    """
    choose_workers(request.device, request.workers, request.executor)
    for suite in request.suites:
        for condition in suite.conditions:
            check_installed(getattr(condition.perturbation, "backend", ""))
    names = tuple(dict.fromkeys(condition.dataset for suite in request.suites for condition in suite.conditions))
    opened, digests = _found(request, names)
    for checkpoint in request.checkpoints:
        for name in names:
            _check_fit(checkpoint, name, opened[name, checkpoint.preprocessing])
    identities = {name: dataset.identity for (name, _), dataset in opened.items()}
    measurements = {suite.name: _measurements(suite, request, digests, identities) for suite in request.suites}
    shards = tuple(
        shard
        for suite in request.suites
        for shard in plan(measurements[suite.name], suite.batches_per_shard, request.limit)
    )
    return PreparedRun(request=request, measurements=measurements, shards=shards)


def _found(
    request: RunRequest, names: tuple[str, ...]
) -> tuple[dict[tuple[str, Declaration], Dataset], dict[str, str]]:
    """Open every dataset as every model wants it, and digest all weights; whatever is missing is named at once."""
    opened: dict[tuple[str, Declaration], Dataset] = {}
    digests: dict[str, str] = {}
    problems: dict[str, MissingDataError | WeightsError] = {}
    for checkpoint in request.checkpoints:
        try:
            digests[checkpoint.name] = resolve(checkpoint)[1]
        except WeightsError as error:
            problems[str(error)] = error
        for name in names:
            key = name, checkpoint.preprocessing
            try:
                opened[key] = opened.get(key) or open_dataset(
                    name, data_root=request.data_root, preprocessing=checkpoint.preprocessing
                )
            except MissingDataError as error:
                problems[str(error)] = error
    if problems:
        raise type(next(iter(problems.values())))("\n".join(problems))
    return opened, digests


def _measurements(
    suite: Suite, request: RunRequest, digests: Mapping[str, str], datasets: Mapping[str, DatasetIdentity]
) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            checkpoint=checkpoint,
            condition=condition,
            weights_digest=digests[checkpoint.name],
            dataset=datasets[condition.dataset],
            seed=suite.seed if request.seed is None else request.seed,
            batch_size=suite.batch_size,
            code_digest=_code_digest(checkpoint),
        )
        for checkpoint in request.checkpoints
        for condition in suite.conditions
    )


def _code_digest(checkpoint: Checkpoint) -> str | None:
    """Weights alone do not tell a model whose code the user may change between two runs."""
    architecture = checkpoint.architecture
    return code_digest(architecture) if isinstance(architecture, Python) else None


def _check_fit(checkpoint: Checkpoint, dataset_name: str, dataset: Dataset) -> None:
    """Load the model and show it one example: sizes, channels and classes must be those of the dataset."""
    victim = load_victim(checkpoint)
    example = _first_readable(dataset)
    if example is None:
        return
    try:
        with torch.no_grad():
            num_classes = victim.logits(example[None], [0]).shape[1]
    except Exception as error:  # whatever a model raises on a strange input, it does not fit
        raise UsageError(
            f"model {checkpoint.name!r} cannot take the examples {tuple(example.shape)} of dataset "
            f"{dataset_name!r}: {error}"
        ) from error
    wanted = DATASETS[dataset_name].num_classes
    if num_classes != wanted:
        raise UsageError(
            f"model {checkpoint.name!r} gives {num_classes} classes, but dataset {dataset_name!r} has {wanted}; "
            "choose a suite on the data that the model was trained for"
        )


def _first_readable(dataset: Dataset, num_tries: int = 10) -> torch.Tensor | None:
    """An unreadable example is the business of its shard, which will fail and name it."""
    for index in range(min(num_tries, len(dataset))):
        with suppress(ExampleError):
            return dataset[index][0]
    return None
