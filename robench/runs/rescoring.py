"""Rescoring of a results folder: stored outcomes of each condition against a new pass of the same models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from robench.core.columns import Outcomes
from robench.core.containment import Contained
from robench.core.errors import StoreError, UnknownNameError, described
from robench.core.protocols import Dataset, Model
from robench.core.records import Record
from robench.core.shard import Measurement, Shard
from robench.core.suite import Condition, Suite, View, views_of
from robench.evaluation.evaluator import Evaluator
from robench.evaluation.submission import Agreement, agreement_of
from robench.executors import IN_PROCESS
from robench.metrics import METRICS, Readings
from robench.reports.selection import tile
from robench.runs.prepare import prepare
from robench.runs.request import KeptDtype, RunRequest, check_keepable
from robench.store import AdversarialFolder, FolderStore
from robench.tasks import TASKS

_DTYPES = get_args(KeptDtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """Agreement of one condition, or one budget of a sweep, of one model.

    Attributes:
        kept_as: number format of the kept adversarial examples; None for conditions without attack.
        num_examples: number of examples that were scored again.
        num_missing: number of wanted examples that were not submitted, or that could not be scored.
        violations: ids of examples whose adversarial example breaks its threat model.
        disagreements: ids of examples whose decision, distance or score is another one, without ties.
        num_ties: number of examples whose decision is another one, with outputs on its boundary.
        submitted, rescored: number of the task's metric for clean examples, such as top-1 accuracy, on the scored
            examples without violations; None if there are none or the task has no such metric.
        notes: what could not be scored, and why.
    """

    suite: str
    model: str
    condition: str
    kept_as: str | None
    num_examples: int
    num_missing: int
    violations: tuple[str, ...]
    disagreements: tuple[str, ...]
    num_ties: int
    submitted: float | None
    rescored: float | None
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Return whether everything wanted was scored again with the same result."""
        return not (self.num_missing or self.violations or self.disagreements)


@dataclass(slots=True)
class _Scored:
    """Agreements of the shards of one measurement, each of the examples that count."""

    measurement: Measurement
    agreements: list[Agreement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rescore_results(
    request: RunRequest, store: FolderStore, conditions: Sequence[str] = ()
) -> Iterator[tuple[Rescored, ...]]:
    """Score the outcomes of a results folder again; yield each condition's agreement, one entry a budget.

    Inputs that attacks made are read from the kept adversarial examples; corrupted ones are made again. Without names
    of conditions all are scored.

    Raises:
        UnknownNameError: no suite has a condition of a name.
        UsageError: inputs of a suite are not real numbers, so that none are kept.
        RobenchError: see ``prepare``.
    """
    request = replace(
        request, suites=_narrowed(request.suites, conditions), audit=False, executor=IN_PROCESS, workers=None
    )
    for condition in (each for suite in request.suites for each in suite.conditions):
        check_keepable(condition.dataset)
    prepared = prepare(request)
    store.expect(request.conditions, prepared.planned)
    (device,), decode_workers = prepared.asked.devices, prepared.asked.decode_workers
    evaluator = Evaluator(device=device, data_root=request.data_root, decode_workers=decode_workers)
    wanted = [(suite.name, each) for suite in request.suites for each in prepared.measurements[suite.name]]
    for checkpoint in request.checkpoints:
        for suite_name, measurement in wanted:
            if measurement.checkpoint.name == checkpoint.name:
                for kept in _as_kept(measurement, store):
                    scored = _scored(kept, store, *evaluator.opened(measurement), request.limit)
                    yield tuple(_summary(suite_name, scored, view, request.limit) for view in views_of(kept.condition))


def _narrowed(suites: Sequence[Suite], conditions: Sequence[str]) -> tuple[Suite, ...]:
    """Return the suites that have some of the conditions, with those alone; columns are not read."""
    known = [condition.name for suite in suites for condition in suite.conditions]
    for name in conditions:
        if name not in known:
            raise UnknownNameError("condition", name, known)
    wanted = conditions or known
    narrowed = [
        replace(suite, conditions=tuple(each for each in suite.conditions if each.name in wanted), columns=())
        for suite in suites
    ]
    return tuple(suite for suite in narrowed if suite.conditions)


def _reads_kept(condition: Condition) -> bool:
    """Return whether a condition's inputs are read; what depends on no model is made again instead."""
    return condition.makes_inputs and condition.perturbation.is_attack


def _as_kept(measurement: Measurement, store: FolderStore) -> tuple[Measurement, ...]:
    """Return the measurement in each number format in which its inputs are kept; in one if they are not."""
    if not measurement.condition.makes_inputs:
        return (measurement,)
    formats = [replace(measurement, adversarial_dtype=dtype) for dtype in _DTYPES]
    shards = {each.key: {record.shard.key for record in store.records_of([each.key])} for each in formats}
    measured = [each for each in formats if shards[each.key]]
    if not _reads_kept(measurement.condition):
        return tuple(measured) or (measurement,)
    kept = store.adversarial.keys()
    return tuple(each for each in measured if shards[each.key] & kept) or (*measured, measurement)[:1]


def _scored(measurement: Measurement, store: FolderStore, model: Model, dataset: Dataset, limit: int | None) -> _Scored:
    """Score all shards of a measurement that count."""
    scored = _Scored(measurement)
    records = {record.shard.key: record for record in store.records_of([measurement.key])}
    for part in tile(records.values(), wanted := _num_wanted(measurement, limit)):
        record = records[part.shard.key]
        title = f"examples {part.shard.start}-{min(part.shard.stop, wanted) - 1}"
        try:
            # What fails costs its shard alone, be it the model's code or a submitted file.
            with Contained():
                found = _agreement(measurement, record, store.adversarial, model, dataset)
        except Exception as error:
            scored.notes.append(f"{title}: {described(error)}")
            continue
        each = len(views_of(measurement.condition))
        rows = slice((part.shard.start - record.shard.start) * each, (wanted - record.shard.start) * each)
        scored.agreements.append(found.take(rows))
    if not records:
        scored.notes.append("no results of this model, with these weights, data and settings")
    return scored


def _agreement(
    measurement: Measurement, record: Record, folder: AdversarialFolder, model: Model, dataset: Dataset
) -> Agreement:
    shard = Shard(measurement=measurement, start=record.shard.start, stop=record.shard.stop)
    if not _reads_kept(measurement.condition):
        return agreement_of(shard, record, None, model, dataset)
    examples = folder.get(measurement.key, shard.key)
    if examples is None:
        raise StoreError("no adversarial examples are kept, or their file is damaged")
    return agreement_of(shard, record, examples, model, dataset)


def _num_wanted(measurement: Measurement, limit: int | None) -> int:
    return measurement.num_examples if limit is None else min(limit, measurement.num_examples)


def _summary(suite: str, scored: _Scored, view: View, limit: int | None) -> Rescored:
    measurement = scored.measurement
    parts = [_at(each, view.epsilon) for each in scored.agreements]
    count = sum(len(each.rescored) for each in parts)
    valid = [(each.submitted.take(~each.violates), each.rescored.take(~each.violates)) for each in parts]
    return Rescored(
        suite=suite,
        model=measurement.checkpoint.name,
        condition=view.label,
        kept_as=measurement.adversarial_dtype if _reads_kept(view.condition) else None,
        num_examples=count,
        num_missing=_num_wanted(measurement, limit) - count,
        violations=tuple(name for each in parts for name in each.rescored.column("example_id")[each.violates].tolist()),
        disagreements=tuple(
            name for each in parts for name in each.rescored.column("example_id")[each.differs].tolist()
        ),
        num_ties=sum(int(each.is_tied.sum()) for each in parts),
        submitted=_number(measurement, [one for one, _ in valid]),
        rescored=_number(measurement, [other for _, other in valid]),
        notes=tuple(scored.notes),
    )


def _at(agreement: Agreement, epsilon: str | None) -> Agreement:
    """Return the rows of one budget of a sweep."""
    budgets = agreement.rescored.values("epsilon")
    if epsilon is None or budgets is None:
        return agreement
    return agreement.take(budgets.array == epsilon)


def _number(measurement: Measurement, parts: Sequence[Outcomes]) -> float | None:
    """Return the number of the metric for clean examples; None without outcomes or metric."""
    metric = TASKS[measurement.checkpoint.task].metric
    if metric is None or not sum(map(len, parts)):
        return None
    outcomes = Outcomes.joined(parts).replaced(epsilon=None)
    return METRICS[metric].compute(Readings(measured=(outcomes,))).value
