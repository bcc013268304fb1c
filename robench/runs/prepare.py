"""Preparation of runs: all checks of weights and data, before the first shard is measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from robench.attacks.backends.installed import check_installed
from robench.core.checkpoint import Checkpoint
from robench.core.declared import DatasetDeclaration, Declaration
from robench.core.errors import MissingDataError, WeightsError
from robench.core.protocols import Dataset, Executor, Store
from robench.core.report import Report
from robench.core.shard import EXACT_DTYPE, DatasetIdentity, Measurement, Shard
from robench.core.suite import Condition, Suite
from robench.datasets import open_dataset
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of
from robench.evaluation.arithmetic import device_kind
from robench.evaluation.evaluator import Evaluator
from robench.executors import IN_PROCESS, WorkerPool
from robench.models.loaded import LoadedModel
from robench.models.loading import resolve
from robench.models.state_files import digest_of, load_state
from robench.reports import report_of_store
from robench.runs.calibration import calibrated
from robench.runs.devices import AUTO, Workers, choose_workers
from robench.runs.estimate import STARTUP_SECONDS, Work, cost_of, measured_paces, work_of
from robench.runs.fit import check_fit, check_fit_in_subprocess, check_shapes, checks_in_subprocess, loaded_for_checks
from robench.runs.kept_examples import WithExamples, folder_of
from robench.runs.request import SMOKE_NOTE, RunRequest
from robench.scheduling import Progress, missing, part_of, plan, run_shards
from robench.scheduling.measure import Results
from robench.scheduling.pace import Pace, Paces, Source

# Further ones are loaded again, so that memory holds few models.
MOST_LOADED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """Run whose weights and data have been verified.

    Attributes:
        seconds_per_example: seconds of a forward and a backward pass of an example, by model, where they were timed.
        loaded: the first models of robench's own architectures on the CPU, as the checks loaded them, each with the
            digest of its weights; a run in this process measures these.
    """

    request: RunRequest
    measurements: Mapping[str, tuple[Measurement, ...]]
    shards: tuple[Shard, ...]
    seconds_per_example: Mapping[str, float] = field(default_factory=dict)
    loaded: dict[str, tuple[str, LoadedModel]] = field(default_factory=dict, repr=False)

    @property
    def mine(self) -> Sequence[Shard]:
        """Return the shards of the requested part, each once; without one all shards."""
        part = self.request.part
        return self.shards if part is None else part_of(self.shards, *part)

    @property
    def of_others(self) -> Sequence[Shard]:
        """Return the shards of other parts that are measured after those of the requested one."""
        if not self.request.take_over:
            return ()
        mine = {shard.key for shard in self.mine}
        return [shard for shard in self.shards if shard.key not in mine]

    def todo(self, store: Store) -> list[Shard]:
        """Return the shards, of the requested part, that ``store`` lacks."""
        return missing(self.mine, self._demanding(store))

    def paces(self, store: Store, per_pass: Mapping[str, Pace] | None = None) -> Paces:
        """Return the seconds per example, from what ``store`` holds and from the timed passes.

        ``per_pass`` are further estimates of a pass by model, preferred to those timed on another device.
        """
        device = self.device_kind
        is_cpu = device is not None and device.startswith("cpu")
        source = Source.TIMED if is_cpu else Source.TIMED_ON_CPU
        timed = {name: Pace(seconds, source) for name, seconds in self.seconds_per_example.items()}
        counted = dict(per_pass or {})
        known = {each.key: each for of_suite in self.measurements.values() for each in of_suite}
        return measured_paces(known.values(), store, device, counted | timed if is_cpu else timed | counted)

    @property
    def device_kind(self) -> str | None:
        """Return the kind of device that measures, such as ``NVIDIA H200``; None if workers are elsewhere."""
        devices = self.workers().devices
        return device_kind(torch.device(devices[0])) if devices else None

    @property
    def startup_seconds(self) -> float:
        """Return the time that a worker process takes to start, as calibrated."""
        kind = self.device_kind
        found = None if kind is None else calibrated(kind)
        return STARTUP_SECONDS if found is None else found.startup_seconds

    def work(self, store: Store) -> Work:
        """Return the estimated work of the shards that ``store`` lacks."""
        return work_of(self.todo(store), self.paces(store))

    def workers(self, store: Store | None = None) -> Workers:
        """Return the workers for the requested devices.

        One, in this process, where nothing else was asked for and new processes would start for longer than they save.
        """
        request = self.request
        workers = choose_workers(request.device, request.workers, request.executor, request.shard_timeout)
        is_free = request.workers is None and request.executor == AUTO and request.shard_timeout is None
        is_cpu = set(workers.devices) == {"cpu"}
        if store is not None and is_free and is_cpu and self._is_faster_alone(store, len(workers.devices)):
            return choose_workers(request.device, 1, IN_PROCESS)
        return workers

    def _is_faster_alone(self, store: Store, num_workers: int) -> bool:
        return self.work(store).is_faster_alone(num_workers, self.startup_seconds)

    def executor(self, store: Store | None = None) -> Executor:
        """Return the executor for the requested devices; ``store`` keeps results and adversarial examples.

        Raises:
            UsageError: adversarial examples are requested, but the store cannot keep them; or there are no workers.
        """
        request = self.request
        workers = self.workers(store)
        make = partial(
            Evaluator,
            data_root=request.data_root,
            decode_workers=workers.decode_workers,
            limit=request.limit,
            adversarial=None if request.keep_adversarial is None else folder_of(store),
            modules=request.modules,
        )
        if workers.executor.is_in_process and set(workers.devices) == {"cpu"}:
            make = partial(make, loaded=self.loaded)
        pool = WorkerPool(
            make=make,
            devices=workers.devices,
            device=request.device,
            num_workers=request.workers,
            shard_timeout=request.shard_timeout,
        )
        return workers.executor.executor(pool)

    def fill(
        self, store: Store, executor: Executor, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> Progress:
        """Measure what ``store`` lacks, and store it."""
        return run_shards(
            self.mine,
            executor,
            self._demanding(store),
            on_progress,
            cost=cost_of(self.paces(store)),
            later=self.of_others,
        )

    def _demanding(self, store: Store) -> Results:
        """Return the store wrapped such that a shard without its adversarial examples counts as missing."""
        if self.request.keep_adversarial is None:
            return store
        made = {shard.key for shard in self.shards if shard.measurement.condition.makes_inputs}
        return WithExamples(store=store, folder=folder_of(store), wanted=frozenset(made))

    def keys(self, suite: Suite) -> dict[str, set[str]]:
        """Return the keys of all measurements of ``suite``, by model."""
        keys: dict[str, set[str]] = {}
        for measurement in self.measurements[suite.name]:
            keys.setdefault(measurement.checkpoint.name, set()).add(measurement.key)
        return keys

    def report(self, suite: Suite, store: Store) -> Report:
        """Return the table of ``suite`` for the models of this run, from what ``store`` holds."""
        seed = suite.seed if self.request.seed is None else self.request.seed
        report = report_of_store(
            suite,
            store,
            models=[checkpoint.name for checkpoint in self.request.checkpoints],
            limit=self.request.limit,
            measurements=self.keys(suite),
            seed=seed,
            coupled=self.request.coupled,
            average_seeds=self.request.all_seeds,
            precision=self.request.precision,
        )
        return replace(report, notes=(SMOKE_NOTE,)) if self.request.smoke else report


def rounds(store: Store) -> Iterator[None]:
    """Yield once, and a second time if results that were measured or read meanwhile turned out damaged.

    A run only lists stored keys (``Store.keys``); damage is found on reading, which sets the file aside, so that the
    second round measures it. A file that is damaged again after that is left to the next run.
    """
    num_lost = store.num_lost
    yield
    if store.num_lost > num_lost:
        yield


def prepare(request: RunRequest) -> PreparedRun:
    """Find and check the data and the weights of every model, and divide the request into shards.

    Raises:
        UsageError: no such device, a library that runs attacks is not installed, or a model does not fit a dataset.
        MissingDataError: a dataset was not found.
        WeightsError: weights are missing, or differ from the registry's.
    """
    workers = choose_workers(request.device, request.workers, request.executor, request.shard_timeout)
    for condition in request.conditions:
        check_installed(condition.perturbation.backend)
    declared = request.datasets
    opened, digests = _found(request, declared)
    for preprocessing in dict.fromkeys(each.preprocessing for each in request.checkpoints):
        check_shapes(request.conditions, {each: opened[each, preprocessing] for each in declared})
    elsewhere = [checkpoint for checkpoint in request.checkpoints if checks_in_subprocess(checkpoint, request, workers)]
    seconds: dict[str, float] = {}
    loaded: dict[str, tuple[str, LoadedModel]] = {}
    for checkpoint in request.checkpoints:
        if checkpoint not in elsewhere:
            shown = {each: opened[each, checkpoint.preprocessing] for each in declared}
            planned = replace(checkpoint.weights, sha256=digests[checkpoint.name])
            module = request.modules.get(checkpoint.name)
            model = loaded_for_checks(replace(checkpoint, weights=planned), module)
            taken = check_fit(checkpoint, shown, model, request.conditions)
            seconds |= {} if taken is None else {checkpoint.name: taken}
            if not checkpoint.architecture.runs_user_code and len(loaded) < MOST_LOADED:
                loaded[checkpoint.name] = digests[checkpoint.name], model
    check_fit_in_subprocess(elsewhere, declared, request)
    identities = {each: dataset.identity for (each, _), dataset in opened.items()}
    weights = {each.name: (digests[each.name], _tensors_digest(each, request)) for each in request.checkpoints}
    measurements = {suite.name: _measurements(suite, request, weights, identities) for suite in request.suites}
    audits = {suite.name: _audits(suite, request, weights, identities) for suite in request.suites}
    shards = tuple(
        shard
        for suite in request.suites
        for planned in (
            # First, so that long runs do not fail late.
            plan(audits[suite.name], 1, request.limit),
            plan(measurements[suite.name], suite.batches_per_shard, request.limit),
        )
        for shard in planned
    )
    return PreparedRun(
        request=request,
        measurements={name: (*audits[name], *measured) for name, measured in measurements.items()},
        shards=shards,
        seconds_per_example=seconds,
        loaded=loaded,
    )


def _found(
    request: RunRequest, datasets: Sequence[DatasetDeclaration]
) -> tuple[dict[tuple[DatasetDeclaration, Declaration], Dataset], dict[str, str]]:
    """Open every dataset as required by every model, and digest all weights; all missing ones are named at once."""
    opened: dict[tuple[DatasetDeclaration, Declaration], Dataset] = {}
    digests: dict[str, str] = {}
    problems: dict[str, MissingDataError | WeightsError] = {}
    for checkpoint in request.checkpoints:
        try:
            digests[checkpoint.name] = _weights_digest(checkpoint, request)
        except WeightsError as error:
            problems[str(error)] = error
        for declared in datasets:
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
    return opened, digests


def _weights_digest(checkpoint: Checkpoint, request: RunRequest) -> str:
    """Return the digest of the weights file, or for a module in memory the one computed when it was chosen."""
    known = checkpoint.weights.sha256
    return known if known is not None and checkpoint.name in request.modules else resolve(checkpoint)[1]


def _tensors_digest(checkpoint: Checkpoint, request: RunRequest) -> str | None:
    """Return the digest of the tensors of a model's file; None for a module in memory."""
    if checkpoint.name in request.modules:
        return None
    return digest_of(load_state(resolve(checkpoint)[0], checkpoint.weights.layout))


def _measurements(
    suite: Suite,
    request: RunRequest,
    weights: Mapping[str, tuple[str, str | None]],
    datasets: Mapping[DatasetDeclaration, DatasetIdentity],
) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            checkpoint=checkpoint,
            condition=condition,
            weights_digest=weights[checkpoint.name][0],
            tensors_digest=weights[checkpoint.name][1],
            dataset=datasets[condition.dataset],
            seed=suite.seed if request.seed is None else request.seed,
            batch_size=suite.batch_size,
            dtype=request.precision,
            # Weights alone do not identify a model whose code the user may change between two runs.
            code_digest=checkpoint.architecture.code_digest(),
            adversarial_dtype=_adversarial_dtype(condition, request),
        )
        for checkpoint in request.checkpoints
        for condition in suite.conditions
    )


def _audits(
    suite: Suite,
    request: RunRequest,
    weights: Mapping[str, tuple[str, str | None]],
    datasets: Mapping[DatasetDeclaration, DatasetIdentity],
) -> tuple[Measurement, ...]:
    """Return the audits, which have their own batch size, so that all suites share them."""
    conditions = audits_of(suite) if request.audit else ()
    alone = replace(suite, conditions=conditions, batch_size=AUDIT_EXAMPLES)
    return _measurements(alone, request, weights, datasets)


def _adversarial_dtype(condition: Condition, request: RunRequest) -> str:
    """Return the number format of adversarial examples, None for conditions that make none."""
    return request.keep_adversarial or EXACT_DTYPE if condition.makes_inputs else EXACT_DTYPE
