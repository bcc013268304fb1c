"""Reproduction of tables: what it asks for, checks before it starts, its trainings and its measurements."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from robench.core.checkpoint import HUB, Checkpoint, Weights
from robench.core.errors import MissingDataError, WeightsError
from robench.core.shard import EXACT_DTYPE
from robench.core.suite import Suite
from robench.datasets import DATASETS, open_dataset
from robench.datasets.imagenet_folder import TRAIN
from robench.datasets.imagenet_forms import find_images
from robench.declare import find_datasets, find_suite, read_registries
from robench.declare.printed import PublishedCell, PublishedTable
from robench.papers.forecast import Forecast
from robench.reproduction.plan import Plan, Training, plan_of
from robench.reproduction.wanted import wanted_conditions, wanted_numbers
from robench.reproduction.weights import Reproduced
from robench.runs import RunRequest
from robench.runs.training_queue import Job
from robench.training.base import Host
from robench.training.epochs import state_path
from robench.training.history import history_path


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Reproduction of numbers of printed tables, or of their twins on small data, in a results folder.

    ``num_seeds`` are training seeds of each model, by default those of the registry.
    """

    tables: Sequence[PublishedTable]
    results: Path
    cells: Sequence[PublishedCell]
    registries: Sequence[Path] = ()
    of_twins: bool = False
    num_seeds: int | None = None
    limit: int | None = None

    @cached_property
    def reproduced(self) -> Reproduced:
        """Return the weights that the results folder has already."""
        return Reproduced(self.results)

    @cached_property
    def _wanted(self) -> tuple[dict[str, dict[str, set[str]]], dict[str, Suite]]:
        numbers = wanted_numbers(self.cells, of_twins=self.of_twins)
        datasets = find_datasets(self.registries)
        suites = {name: find_suite(name, datasets) for name in sorted({each.suite for each in numbers})}
        return wanted_conditions(numbers, suites), suites

    @property
    def all_registries(self) -> tuple[Path, ...]:
        """Return the registry files, that of reproduced weights included if there is one."""
        return (*self.registries, *self.reproduced.registries)

    def plan(self, forecast: Forecast | None = None) -> Plan:
        """Return the missing trainings, and all measurements.

        Raises:
            UsageError: a pattern matches nothing, or a registry file is missing.
            DeclarationError: a registry file is invalid.
        """
        wanted, suites = self._wanted
        return plan_of(
            wanted,
            suites,
            read_registries(self.all_registries),
            self.reproduced,
            num_seeds=self.num_seeds,
            limit=self.limit,
            forecast=forecast,
        )

    def check(self, plan: Plan, data_root: Path | None) -> None:
        """Refuse a plan that cannot be carried out, before anything starts.

        Raises:
            UsageError: a model has neither weights nor a recipe.
            WeightsError: the place of new weights is taken.
            MissingDataError: data, or the weights of a teacher, are not on disk; all are named.
        """
        plan.check()
        for training in plan.trainings:
            self.reproduced.check_free(training.checkpoint)
        lines: dict[str, None] = {}
        opened: set[object] = set()
        for checkpoint, declared in (
            (each.checkpoint, condition.dataset) for each in plan.measurements for condition in each.suite.conditions
        ):
            if (declared, checkpoint.preprocessing) not in opened:
                opened.add((declared, checkpoint.preprocessing))
                try:
                    open_dataset(declared, data_root=data_root, preprocessing=checkpoint.preprocessing)
                except MissingDataError as error:
                    lines |= dict.fromkeys(error.lines)
        for training in plan.trainings:
            lines |= dict.fromkeys(_missing_for(training.checkpoint, data_root))
        if lines:
            raise MissingDataError(*lines)

    def job(self, training: Training, host: Host) -> Job:
        """Return the training of a queue; its state and history are kept in the results folder."""
        kept = self.reproduced.state_path(training.checkpoint)
        recipe = training.checkpoint.training
        takes_precision = recipe is not None and recipe.takes_precision and not recipe.is_embedded
        of_training = Host(
            data_root=host.data_root,
            device="cpu" if training.is_embedded else host.device,
            micro_batch_size=None if training.is_embedded else host.micro_batch_size,
            decode_workers=host.decode_workers,
            precision=host.precision if takes_precision else EXACT_DTYPE,
            state_path=state_path(kept),
        )
        return Job(checkpoint=training.checkpoint, host=of_training, history=history_path(kept))

    def keep(self, job: Job, content: bytes) -> str:
        """Keep the weights of a training that has ended, declare them, remove its state; return their SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        self.reproduced.keep(job.checkpoint, content, digest, job.history.read_bytes())
        if job.host.state_path is not None:
            job.host.state_path.unlink(missing_ok=True)
        job.history.unlink(missing_ok=True)
        return digest

    # Any: fields of requests.
    def requests(self, plan: Plan, **settings: Any) -> list[RunRequest]:
        """Return the requests that measure what a plan does not train, one for models that need the same conditions."""
        suites: dict[str, dict[str, Suite]] = {}
        checkpoints: dict[str, Checkpoint] = {}
        lacking = {each.checkpoint.name for each in plan.trainings}
        for measuring in (each for each in plan.measurements if each.checkpoint.name not in lacking):
            suites.setdefault(measuring.checkpoint.name, {})[measuring.suite.name] = measuring.suite
            checkpoints[measuring.checkpoint.name] = measuring.checkpoint
        groups: dict[tuple[Suite, ...], list[Checkpoint]] = {}
        for name, of_model in suites.items():
            groups.setdefault(tuple(of_model.values()), []).append(checkpoints[name])
        return [
            RunRequest(suites=key, checkpoints=tuple(models), limit=self.limit, **settings)
            for key, models in groups.items()
        ]


def _missing_for(checkpoint: Checkpoint, data_root: Path | None) -> Iterator[str]:
    """Yield a line for each thing that a training lacks on disk."""
    recipe = checkpoint.training
    assert recipe is not None  # it is to be trained
    try:
        if DATASETS[recipe.dataset].has_training_images:
            find_images(data_root, TRAIN)
        elif not recipe.is_embedded:
            open_dataset(recipe.dataset, data_root=data_root, preprocessing=checkpoint.preprocessing, split="train")
    except MissingDataError as error:
        yield from error.lines
    weights: Weights | None = getattr(getattr(recipe, "teacher", None), "weights", None)
    if weights is not None and not weights.uri.startswith(HUB) and not (checkpoint.folder / weights.uri).is_file():
        missing = WeightsError(f"weights of the teacher of {checkpoint.name!r} are missing: {weights.uri}")
        yield f"{missing}. {weights.how_to_get}".rstrip()
