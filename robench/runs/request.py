"""Requests of users, before anything is opened, and their reduction to rehearsals and smoke runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Literal, get_args

from torch import nn

from robench.core.checkpoint import Checkpoint
from robench.core.declared import DatasetDeclaration
from robench.core.errors import UnknownNameError, UsageError
from robench.core.shard import EXACT_DTYPE, NUM_LEVELS, WRITTEN_DTYPE, Precision, is_compiled, number_format
from robench.core.suite import Condition, Suite
from robench.domains import DOMAINS
from robench.executors import ExecutorBase
from robench.runs.devices import AUTO, executor_asked
from robench.tasks import TASKS

KeptDtype = Literal["float32", "float16", "uint8"]
BatchSize = Literal["suite", "auto"]
SMOKE_EXAMPLES = 4
# Folder of a results folder with what was measured with random weights.
REHEARSALS = "rehearsal"
SMOKE_NOTE = (
    f"smoke run of {SMOKE_EXAMPLES} examples, none kept: it shows that the models go through the suite, not how well"
)


def check_keepable(dataset: DatasetDeclaration) -> None:
    """Refuse a dataset whose perturbed examples cannot be kept. Raises UsageError: its inputs are not real numbers."""
    if not DOMAINS[dataset.domain].is_real_valued:
        raise UsageError(
            f"perturbed {dataset.domain} of dataset {dataset.name!r} are not kept, only inputs of real numbers are; "
            "the same seed makes the same again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Request to measure checkpoints under suites.

    Attributes:
        limit: number of first examples of each condition; None for all.
        seed: replaces the suites' own.
        device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        workers: number of worker processes; None for one per GPU, or per CPU core.
        executor: kind of executor, ``auto``, or a declaration of one with its fields.
        part: number, from 1, and count of parts of the plan, for a run of one; None for everything.
        take_over: whether to go on with what is left of the other parts.
        data_root: folder of datasets that are not embedded.
        audit: whether to measure the audits of suites that have one: True for as many examples as take at most a
            quarter of the passes of the suite's attacks, ``full`` for all.
        shard_timeout: time limit in seconds of a shard in a worker process; None for a day.
        keep_adversarial: whether to store adversarial examples, exactly (``float32``) or in half the space
            (``float16``) or as images of 8 bits a value (``uint8``), rounded toward the clean input before scoring;
            None stores outcomes alone.
        modules: modules of checkpoints in memory, by the checkpoint's name; they are measured in this process.
        precision: number format of the passes of the models; everything else stays float32.
        batch_size: rows of a pass: the suite's batch size (``suite``), halved where memory is exhausted; or as many of
            it as fit, tried by each worker before its first shard of a model (``auto``).
        all_seeds: whether rows of reports are means over the training seeds of a model.
        smoke: whether to check only that the models run under the suites (``smoke_request``).
    """

    suites: tuple[Suite, ...]
    checkpoints: tuple[Checkpoint, ...]
    limit: int | None = None
    seed: int | None = None
    device: str = "auto"
    workers: int | None = None
    executor: str | ExecutorBase = AUTO
    part: tuple[int, int] | None = None
    take_over: bool = False
    data_root: Path | None = None
    audit: bool | Literal["full"] = True
    keep_adversarial: KeptDtype | None = None
    shard_timeout: float | None = None
    modules: Mapping[str, nn.Module] = field(default_factory=dict)
    smoke: bool = False
    all_seeds: bool = False
    precision: Precision = EXACT_DTYPE
    batch_size: BatchSize = "suite"

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit must be at least 1, got {self.limit}")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers must be at least 1, got {self.workers}")
        self._check_choices()
        asked = executor_asked(self.executor)
        self._check_modules(asked)
        if asked is not None and asked.is_in_process and self.workers not in (None, 1):
            raise UsageError(
                f"--executor {asked.kind} measures in one process, but --workers is {self.workers}; leave one of them "
                "out"
            )
        self._check_timeout(asked)
        self._check_part()
        names = [suite.name for suite in self.suites]
        if twice := {name for name in names if names.count(name) > 1}:
            raise UsageError(
                f"two of the suites are named {', '.join(sorted(twice))}; give each file's suite its own name"
            )
        for suite in self.suites:
            suite.check_dataset()
            for checkpoint in self.checkpoints:
                if suite.task != checkpoint.task:
                    raise UsageError(
                        f"suite {suite.name!r} is for {suite.task}, but model {checkpoint.name!r} is for "
                        f"{checkpoint.task}; 'robench list models' says which models are for what"
                    )
                self._check_domain(suite, checkpoint)
            if suite.task not in TASKS:
                raise UnknownNameError("task", suite.task, TASKS, "Or install the distribution that has it.")
        self._check_kept()
        self._check_precision()

    @property
    def limit_note(self) -> str:
        """Return a sentence on the number of examples that a limit computes; empty if it is that of the limit."""
        sizes = {suite.batch_size_of(each) for suite in self.suites for each in suite.conditions}
        if self.limit is None or self.smoke or all(self.limit % size == 0 for size in sizes):
            return ""
        computed = max(self.limit + -self.limit % size for size in sizes)
        return (
            f"limit {self.limit}: passes have whole batches, so that up to {computed} examples of a condition are"
            " computed, and kept for later runs; a smoke run tries models with 4"
        )

    def _check_choices(self) -> None:
        if self.audit not in (True, False, "full"):
            raise UsageError(f"audit must be True, False or 'full', got {self.audit!r}")
        if self.batch_size not in get_args(BatchSize):
            raise UsageError(f"--batch-size must be suite or auto, got {self.batch_size!r}; set others in the suite")

    def _check_precision(self) -> None:
        known = get_args(Precision)
        if self.precision not in known:
            raise UsageError(f"--precision must be one of {', '.join(known)}, got {self.precision!r}")
        if not is_compiled(self.precision):
            return
        for checkpoint in self.checkpoints:
            domain = checkpoint.preprocessing.domain
            if domain in DOMAINS and not DOMAINS[domain].is_real_valued:
                raise UsageError(
                    f"--precision {self.precision} compiles passes for inputs of one shape, but model "
                    f"{checkpoint.name!r} is of {domain}; use {number_format(self.precision)}"
                )

    @staticmethod
    def _check_domain(suite: Suite, checkpoint: Checkpoint) -> None:
        wanted = checkpoint.preprocessing.domain
        for condition in suite.conditions:
            if condition.dataset.domain != wanted:
                raise UsageError(
                    f"dataset {condition.dataset.name!r} of suite {suite.name!r} is of the domain "
                    f"{condition.dataset.domain}, but model {checkpoint.name!r} takes {wanted}; choose another suite"
                )

    @property
    def coupled(self) -> frozenset[str]:
        """Return the names of the models whose registry entry permits rows that influence each other."""
        return frozenset(checkpoint.name for checkpoint in self.checkpoints if checkpoint.coupled)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of all suites."""
        return tuple(condition for suite in self.suites for condition in suite.conditions)

    @property
    def datasets(self) -> tuple[DatasetDeclaration, ...]:
        """Return the datasets of all conditions, each once."""
        return tuple(dict.fromkeys(condition.dataset for condition in self.conditions))

    def _check_part(self) -> None:
        if self.take_over and self.part is None:
            raise UsageError("--take-over goes on after a part of the run; name the part with --part, such as 1/4")
        if self.part is not None and not 1 <= self.part[0] <= self.part[1]:
            number, count = self.part
            raise UsageError(f"--part must be 1/{count} to {count}/{count}, got {number}/{count}")

    def _check_modules(self, executor: ExecutorBase | None) -> None:
        """Refuse options that need worker processes for modules in memory."""
        for name in self.modules:
            asked = [
                *([f"{self.workers} workers"] if self.workers not in (None, 1) else []),
                *([f"executor {executor.kind!r}"] if executor is not None and not executor.is_in_process else []),
                *([f"shard_timeout {self.shard_timeout:g}"] if self.shard_timeout is not None else []),
            ]
            if asked:
                raise UsageError(
                    f"model {name!r} is in memory, where no other process can measure it, but the run has "
                    f"{' and '.join(asked)}; leave that out, or declare the model in a registry file"
                )

    def _check_timeout(self, executor: ExecutorBase | None) -> None:
        if self.shard_timeout is None:
            return
        if not 0 < self.shard_timeout < inf:
            raise UsageError(f"--shard-timeout must be a number of seconds above 0, got {self.shard_timeout}")
        if executor is not None and executor.is_in_process:
            raise UsageError(
                f"--executor {executor.kind} measures in the process of the run, which cannot end itself after "
                "--shard-timeout; leave one of them out"
            )

    def _check_kept(self) -> None:
        if self.keep_adversarial not in (None, *get_args(KeptDtype)):
            raise UsageError(
                f"--keep-adversarial must be one of {', '.join(get_args(KeptDtype))}, got {self.keep_adversarial!r}"
            )
        if self.keep_adversarial is not None:
            for condition in (each for suite in self.suites for each in suite.conditions if each.makes_inputs):
                check_keepable(condition.dataset)
        kept = self.keep_adversarial
        if kept not in {"float16", WRITTEN_DTYPE}:
            return
        for suite, condition in ((each, condition) for each in self.suites for condition in each.conditions):
            attack, title = condition.perturbation, f"condition {condition.name!r} of suite {suite.name!r}"
            is_written = getattr(attack, "pixels", "") == "8bit"
            if attack.is_minimum_norm and not (is_written and kept == WRITTEN_DTYPE):
                advice = ", or give it pixels: 8bit" if kept == WRITTEN_DTYPE else ""
                raise UsageError(
                    f"{title} ({attack.kind}) is minimum-norm, whose examples {kept} would round back across the "
                    f"boundary; use --keep-adversarial float32{advice}"
                )
            if attack.clip == "unit":
                raise UsageError(
                    f"{title} cuts its inputs to [0, 1] after normalisation, and {kept} would round values beyond; "
                    "use --keep-adversarial float32"
                )
            domain = condition.dataset.domain
            has_levels = DOMAINS[domain].levels == NUM_LEVELS and attack.clip == "box"
            if kept == WRITTEN_DTYPE and condition.makes_inputs and not has_levels:
                raise UsageError(
                    f"{title} has {domain} with other values than the levels 0 to 255 of uint8; use --keep-adversarial "
                    "float32"
                )


def rehearsal_request(request: RunRequest) -> RunRequest:
    """Return the request with random weights from a fixed seed in place of those of all models.

    Raises:
        UsageError: all training seeds are asked for, or a model is in memory and has its weights already.
    """
    if request.all_seeds:
        raise UsageError("random weights have no training seeds: leave out all_seeds (--all-seeds)")
    if request.modules:
        raise UsageError(
            f"model {min(request.modules)!r} is in memory and has its weights already; rehearse models of a registry"
        )
    return replace(request, checkpoints=tuple(each.rehearsed() for each in request.checkpoints))


def smoke_request(request: RunRequest, given: Sequence[str] = ()) -> RunRequest:
    """Return the request with four examples of each condition in one batch, no audits, and nothing stored.

    One process measures unless workers were requested: starting more takes longer than a few examples. ``given`` are
    options, as written by the user, that contradict a smoke run.

    Raises:
        UsageError: there are such options.
    """
    if given:
        raise UsageError(
            f"a smoke run measures {SMOKE_EXAMPLES} examples and keeps none, which contradicts {' and '.join(given)}; "
            "leave out one of them"
        )
    suites = tuple(
        replace(suite, batch_size=SMOKE_EXAMPLES, batches_per_shard=1, audit=False) for suite in request.suites
    )
    is_open = request.workers is None and request.executor == AUTO and request.shard_timeout is None
    return replace(
        request,
        suites=suites,
        limit=SMOKE_EXAMPLES,
        audit=False,
        keep_adversarial=None,
        workers=1 if is_open else request.workers,
        smoke=True,
    )
