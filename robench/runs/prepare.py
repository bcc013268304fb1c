"""Plan of a run: the measurements and shards of a request, and what a store lacks of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from robench.core.checkpoint import Checkpoint
from robench.core.errors import StoreError, UsageError
from robench.core.library_watch import replaced_by_imports
from robench.core.protocols import Claims, Executor, Store
from robench.core.records import Failure, Manifest, Record
from robench.core.report import Report
from robench.core.shard import EXACT_DTYPE, Measurement, Shard, into_shards, pieces_of, rest_of
from robench.core.suite import Suite
from robench.evaluation.actions import AUDIT_EXAMPLES, AUDIT_SHARD, audits_of
from robench.evaluation.arithmetic import device_kind
from robench.evaluation.evaluator import Evaluator
from robench.executors import IN_PROCESS, WorkerPool
from robench.models.loaded import LoadedModel
from robench.models.state_files import digest_of, load_state
from robench.reports import report_of_store
from robench.runs.audits import num_audited, of_size
from robench.runs.checks import Checked, check
from robench.runs.devices import AUTO, Workers, choose_workers
from robench.runs.finding import Found, find
from robench.runs.fit import foreign_code_of
from robench.runs.request import SMOKE_NOTE, RunRequest
from robench.runs.rounds import in_rounds
from robench.scheduling import Listener, Watch, run_shards
from robench.scheduling.estimates import Estimate, Estimates, Source, Work, work_of
from robench.store import AdversarialFolder, FolderStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunResults:
    """Store as a run sees it: suites share measurements, and examples that must be kept are part of a result.

    Attributes:
        suites: the first suite of each measurement by key, which is noted with its results.
        folder: that of adversarial examples, if they are kept.
        wanted: keys of the shards whose examples must be in ``folder``.
    """

    store: Store
    suites: Mapping[str, str]
    folder: AdversarialFolder | None = None
    wanted: frozenset[str] = frozenset()

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a complete record and, if requested, their examples."""
        return self.store.keys() - (self.wanted - (self.folder.keys() if self.folder else set()))

    def has(self, measurement_key: str, key: str) -> bool:
        """Return whether a shard has a record and, if requested, its examples."""
        has_examples = key not in self.wanted or (self.folder is not None and self.folder.has(measurement_key, key))
        return has_examples and self.store.has(measurement_key, key)

    def claims(self) -> Claims:
        """Return claims on shards, which are done once their examples exist too."""
        return self.store.claims(self.has)

    def put(self, result: Record | Failure) -> None:
        """Store a result; for a shard measured again only for its examples, the first record stays."""
        suite = self.suites[result.shard.measurement_key]
        self.store.put(replace(result, provenance=replace(result.provenance, suite=suite)))


class Table(NamedTuple):
    """Report of a suite, and the keys of its measurements by model."""

    suite: Suite
    report: Report
    measurements: Mapping[str, set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """Run whose weights and data have been verified.

    Attributes:
        asked: workers of the requested devices.
        seconds_per_example: seconds of a forward and a backward pass of an example, by model, where they were timed.
        loaded: the first models of robench's own architectures on the CPU, as the checks loaded them, each with the
            digest of its weights; a run in this process measures these.
    """

    request: RunRequest
    measurements: Mapping[str, tuple[Measurement, ...]]
    shards: tuple[Shard, ...]
    asked: Workers
    seconds_per_example: Mapping[str, float] = field(default_factory=dict)
    loaded: dict[str, tuple[str, LoadedModel]] = field(default_factory=dict, repr=False)

    @property
    def mine(self) -> Sequence[Shard]:
        """Return the shards of the requested part, each once; without one all shards."""
        part = self.request.part
        return self.shards if part is None else part_of(self.shards, *part)

    @property
    def planned(self) -> list[Measurement]:
        """Return the measurements of all suites."""
        return [each for of_suite in self.measurements.values() for each in of_suite]

    @property
    def of_others(self) -> Sequence[Shard]:
        """Return the shards of other parts that are measured after those of the requested one."""
        if not self.request.take_over:
            return ()
        mine = {shard.key for shard in self.mine}
        return [shard for shard in self.shards if shard.key not in mine]

    def todo(self, store: Store) -> list[Shard]:
        """Return the shards, of the requested part, that ``store`` lacks."""
        return self._missing(self.mine, self._results(store).keys())

    def _missing(self, shards: Iterable[Shard], kept: Collection[str]) -> list[Shard]:
        # Adversarial examples are kept of whole shards.
        return missing(shards, kept, in_parts=self.request.keep_adversarial is None)

    def gone(self, store: Store) -> list[Shard]:
        """Return the shards, of the requested part, that have neither a record nor a failure in ``store``."""
        todo = self._missing(self.mine, store.keys())
        failed = {failure.shard.key for failure in store.failures()} if todo else ()
        return [shard for shard in todo if shard.key not in failed]

    def estimates(self, store: Store, per_pass: Mapping[str, Estimate] | None = None) -> Estimates:
        """Return the seconds of an example, as far as ``store`` and the timed passes know them.

        ``per_pass`` are other estimates of a pass by model, preferred to the timed ones. Without a device of
        this machine, results of the kind of device that measured last count.
        """
        device = self.device_kind
        source = Source.TIMED if (device or "").startswith("cpu") else Source.TIMED_ON_CPU
        timed = {name: Estimate(seconds, source) for name, seconds in self.seconds_per_example.items()}
        found = Estimates(timed | dict(per_pass or {}))
        known = {each.key: each for each in self.planned}
        kept: list[Manifest] = []
        # A run goes on without an estimate.
        with suppress(StoreError):
            kept.extend(store.manifests(known.keys()))
        if device is None and kept:
            device = max(kept, key=lambda each: each.provenance.finished_at).provenance.device
        for each in kept:
            measurement, header = known[each.shard.measurement_key], each.shard
            if each.provenance.device == device:
                name, count = measurement.checkpoint.name, header.stop - header.start
                found.add(measurement.key, name, measurement.condition, each.provenance.seconds, count)
        return found

    @property
    def device_kind(self) -> str | None:
        """Return the kind of device that measures, such as ``NVIDIA H200``; None if workers are elsewhere."""
        return device_kind(torch.device(self.asked.devices[0])) if self.asked.devices else None

    def workers(self, work: Work) -> Workers:
        """Return the workers for some work on the requested devices.

        One, in this process, where nothing else was asked for and new processes would start for longer than they save;
        but never where code of others would share this process with the shards of other models.
        """
        request = self.request
        is_free = request.workers is None and request.executor == AUTO and request.shard_timeout is None
        is_cpu, count = set(self.asked.devices) == {"cpu"}, len(self.asked.devices)
        is_free &= len({each.foreign_code for each in self.planned}) < 2 and not replaced_by_imports()
        if is_free and is_cpu and work.is_faster_alone(count):
            return choose_workers(request.device, 1, IN_PROCESS)
        return self.asked

    def _executor(self, workers: Workers, store: Store) -> Executor:
        """Return the executor of some workers; ``store`` keeps adversarial examples.

        Raises:
            UsageError: adversarial examples are requested, but the store cannot keep them; or there are no workers.
        """
        request = self.request
        make = partial(
            Evaluator,
            data_root=request.data_root,
            decode_workers=workers.decode_workers,
            limit=request.limit,
            adversarial=None if request.keep_adversarial is None else folder_of(store),
            modules=request.modules,
            tries_batch_size=request.batch_size == "auto",
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

    def fill(self, store: Store, watch: Watch, title: str = "") -> None:
        """Measure what ``store`` lacks, and store it."""
        results, estimates = self._results(store), self.estimates(store)
        kept = results.keys()
        todo, later = self._missing(self.mine, kept), self._missing(self.of_others, kept)
        num_shards = len({shard.key for shard in (*self.mine, *self.of_others)})
        executor = self._executor(self.workers(work_of(todo, estimates)), store)
        with watch.watching(executor, len(todo), num_shards, title) as on_progress:
            watch.filled[title] = run_shards(
                todo,
                executor,
                results,
                on_progress,
                num_kept=num_shards - len(todo) - len(later),
                estimates=estimates,
                later=later,
            )

    def _results(self, store: Store) -> RunResults:
        suites = {each.key: name for name in reversed(list(self.measurements)) for each in self.measurements[name]}
        if self.request.keep_adversarial is None:
            return RunResults(store, suites)
        made = {shard.key for shard in self.shards if shard.measurement.condition.makes_inputs}
        return RunResults(store, suites, folder_of(store), frozenset(made))

    def keys(self, suite: Suite) -> dict[str, set[str]]:
        """Return the keys of all measurements of ``suite``, by model."""
        keys: dict[str, set[str]] = {}
        for measurement in self.measurements[suite.name]:
            keys.setdefault(measurement.checkpoint.name, set()).add(measurement.key)
        return keys

    def tables(self, store: Store) -> list[Table]:
        """Return the table of each suite for the models of this run, from what ``store`` holds."""
        request = self.request
        store.expect((), self.planned)
        tables = []
        for suite in request.suites:
            report = report_of_store(
                suite,
                store,
                models=[checkpoint.name for checkpoint in request.checkpoints],
                limit=request.limit,
                measurements=(keys := self.keys(suite)),
                seed=suite.seed if request.seed is None else request.seed,
                coupled=request.coupled,
                average_seeds=request.all_seeds,
                precision=request.precision,
            )
            tables.append(Table(suite, replace(report, notes=(SMOKE_NOTE,)) if request.smoke else report, keys))
        return tables


def folder_of(store: Store | None) -> AdversarialFolder:
    """Return the folder of a store's adversarial examples. Raises UsageError: it has none."""
    if not isinstance(store, FolderStore):
        raise UsageError("adversarial examples are kept in a results folder; give a FolderStore")
    return store.adversarial


def measure(
    request: RunRequest, store: Store, read: Callable[[PreparedRun, Store], T], watch: Watch | None = None
) -> T:
    """Find, check and plan a run, measure what ``store`` lacks, and return what ``read`` makes of the results.

    Raises:
        RobenchError: see ``prepare``, ``run_shards`` and ``read``.
    """
    return in_rounds(prepare(request), store, read, Listener() if watch is None else watch)


def prepare(request: RunRequest) -> PreparedRun:
    """Find the data and the weights of every model, check them, and divide the request into shards.

    Raises:
        RobenchError: see ``find`` and ``check``.
    """
    return plan(check(find(request)))


def plan(checked: Checked) -> PreparedRun:
    """Divide a request into shards: audits come first, so that long runs do not fail late."""
    request = checked.found.request
    files = checked.found.files
    tensors = {each.name: _tensors_digest(each, files[each.name][0]) for each in request.checkpoints}
    planned: dict[str, tuple[tuple[Measurement, ...], tuple[Measurement, ...]]] = {}
    counts: Counter[str] = Counter()
    for suite in request.suites:
        # With a batch size of their own, so that all suites share them.
        asked = audits_of(suite) if request.audit else ()
        audit = replace(suite, conditions=asked, batch_size=AUDIT_EXAMPLES)
        audits, measured = (_measurements(each, checked.found, tensors) for each in (audit, suite))
        planned[suite.name] = audits, measured
        for each in audits:
            is_full = request.audit == "full"
            count = each.num_examples if is_full else num_audited(each, measured, request.limit)
            counts[each.key] = max(count, counts[each.key])
    measurements: dict[str, tuple[Measurement, ...]] = {}
    shards: list[Shard] = []
    for suite in request.suites:
        audits, measured = planned[suite.name]
        audits = tuple(of_size(each, counts[each.key]) for each in audits)
        measurements[suite.name] = (*audits, *measured)
        for each in audits:
            shards += pieces_of(each, AUDIT_SHARD, counts[each.key])
        shards += into_shards(measured, suite.batches_per_shard, request.limit)
    return PreparedRun(
        request=request,
        measurements=measurements,
        shards=tuple(shards),
        asked=checked.found.workers,
        seconds_per_example=checked.seconds_per_example,
        loaded=checked.loaded,
    )


def _tensors_digest(checkpoint: Checkpoint, path: Path | None) -> str | None:
    return None if path is None or path.is_dir() else digest_of(load_state(path, checkpoint.weights))


def _measurements(suite: Suite, found: Found, tensors: Mapping[str, str | None]) -> tuple[Measurement, ...]:
    request = found.request
    datasets = {declared: dataset.identity for (declared, _), dataset in found.opened.items()}
    return tuple(
        Measurement(
            checkpoint=checkpoint,
            condition=condition,
            weights_digest=found.digest_of(checkpoint),
            tensors_digest=tensors[checkpoint.name],
            dataset=datasets[condition.dataset],
            seed=suite.seed if request.seed is None else request.seed,
            batch_size=suite.batch_size_of(condition),
            dtype=request.precision,
            # Weights alone do not identify a model whose code the user may change between two runs.
            code_digest=checkpoint.architecture.code_digest(),
            foreign_code=foreign_code_of(checkpoint, condition),
            adversarial_dtype=(condition.makes_inputs and request.keep_adversarial) or EXACT_DTYPE,
        )
        for checkpoint in request.checkpoints
        for condition in suite.conditions
    )


def part_of(shards: Iterable[Shard], number: int, count: int) -> list[Shard]:
    """Return part ``number`` (from 1) of ``count`` parts of a plan, in the order of the plan and each shard once.

    The shards of each measurement, sorted by key, are dealt to the parts in turn: parts differ by at most one shard,
    and each has about the same part of every measurement. Only the plan and the keys count, so that machines that
    know nothing of each other measure different parts.
    """
    planned = {shard.key: shard for shard in shards}
    by_measurement: dict[str, list[str]] = {}
    for key, shard in planned.items():
        by_measurement.setdefault(shard.measurement.key, []).append(key)
    dealt = [key for keys in by_measurement.values() for key in sorted(keys)]
    mine = set(dealt[number - 1 :: count])
    return [shard for key, shard in planned.items() if key in mine]


def missing(shards: Iterable[Shard], kept: Collection[str], *, in_parts: bool = True) -> list[Shard]:
    """Return the shards whose keys are not ``kept``, each once, in order.

    Where runs with other limits kept a part of a shard, the rest alone; without ``in_parts`` not of shards that make
    inputs.
    """
    todo: dict[str, Shard] = {}
    for shard in shards:
        rest = rest_of(shard, kept) if in_parts or not shard.measurement.condition.makes_inputs else shard
        if rest is not None and rest.key not in kept:
            todo.setdefault(rest.key, rest)
    return list(todo.values())
