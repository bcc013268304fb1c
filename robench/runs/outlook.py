"""Outlook of a run: the hours that are left, by condition, and when it would end on more or fewer workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robench.core.errors import RobenchError
from robench.core.identity import key_of, to_plain
from robench.core.protocols import Store
from robench.core.shard import Shard
from robench.costs import DEFAULT_RULE
from robench.costs.counting import counts_of
from robench.evaluation.actions import Audit
from robench.runs.prepare import PreparedRun
from robench.scheduling.estimates import (
    BACKWARD_TO_INPUTS,
    STARTUP_SECONDS,
    Estimate,
    Estimates,
    Source,
    Work,
    work_of,
)

NUMBERS_OF_WORKERS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCondition:
    """Work left of one condition of a suite, over all models.

    Attributes:
        num_examples: number of examples to be measured.
        seconds: time that they take one worker; None where it is unknown for a model.
        sources: origins of the estimate, best first.
    """

    suite: str
    condition: str
    num_examples: int
    seconds: float | None
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Outlook of a run.

    Attributes:
        todo: shards that are left.
        work: their work; a shard of several suites counts once. ``of_audits``: the part of audits.
        device: kind of device; None if workers are elsewhere.
        num_workers: number of worker processes; 0 for none, when the run measures in its own process.
        elsewhere: kind of the executor whose workers are on other machines; None for this machine's.
        conditions: work by suite and condition; one that suites share counts for each.
        seconds: time until the run ends on its own workers, their start included; None where it is unknown.
        seconds_on: the same by number of worker processes.
    """

    todo: Sequence[Shard]
    work: Work
    of_audits: Work
    device: str | None
    num_workers: int
    elsewhere: str | None
    conditions: tuple[OfCondition, ...]
    seconds: float | None
    seconds_on: Mapping[int, float]


def outlook_of(run: PreparedRun, store: Store, flops_per_second: float | None = None) -> Outlook:
    """Return the outlook of what ``store`` lacks of a run, by the time of earlier results and of timed passes.

    With a speed, the seconds of a pass are those of its counted operations on a device that achieves it.
    """
    todo = run.todo(store)
    workers = run.workers(work_of(todo, run.estimates(store)))
    estimates = run.estimates(store, None if flops_per_second is None else _counted(run, flops_per_second))
    work, count = work_of(todo, estimates), len(workers.devices)
    seconds_on: dict[int, float] = {}
    if todo:
        ends = {each: work.seconds_on(each) for each in sorted({*NUMBERS_OF_WORKERS, count} - {0})}
        seconds_on = {each: STARTUP_SECONDS + end for each, end in ends.items() if end is not None}
    return Outlook(
        todo=todo,
        work=work,
        of_audits=work_of([each for each in todo if isinstance(each.measurement.condition.action, Audit)], estimates),
        device=run.device_kind,
        num_workers=count if workers.are_processes else 0,
        elsewhere=workers.executor.kind if workers.executor.is_elsewhere else None,
        conditions=tuple(_by_condition(run, todo, estimates)),
        seconds=work.seconds if workers.in_process and todo else seconds_on.get(count),
        seconds_on=seconds_on,
    )


def _counted(run: PreparedRun, flops_per_second: float) -> dict[str, Estimate]:
    """Return the seconds of a forward and a backward pass of models, by their operations, as far as they are known."""
    found: dict[str, Estimate] = {}
    # Models of one architecture have the same operations.
    counted: dict[str, int | None] = {}
    for checkpoint in run.request.checkpoints:
        key = key_of([to_plain(checkpoint.architecture), to_plain(checkpoint.preprocessing)])
        if key not in counted:
            try:
                counts = counts_of(checkpoint.name, checkpoint.architecture, checkpoint.preprocessing)
                counted[key] = counts.multiply_adds(DEFAULT_RULE)
            except RobenchError:
                counted[key] = None
        if (multiply_adds := counted[key]) is not None:
            seconds = 2 * multiply_adds * (1 + BACKWARD_TO_INPUTS) / flops_per_second
            found[checkpoint.name] = Estimate(seconds, Source.COUNTED)
    return found


def _by_condition(run: PreparedRun, todo: Sequence[Shard], estimates: Estimates) -> list[OfCondition]:
    left: dict[str, int] = {}
    for shard in todo:
        left[shard.measurement.key] = left.get(shard.measurement.key, 0) + shard.stop - shard.start
    rows = []
    for suite, measurements in run.measurements.items():
        for name in dict.fromkeys(each.condition.name for each in measurements):
            keys = {each.key: each for each in measurements if each.condition.name == name and each.key in left}
            found = {key: estimates.of_measurement(each) for key, each in keys.items()}
            known = {key: each for key, each in found.items() if each is not None}
            seconds = sum(left[key] * each.seconds for key, each in known.items())
            rows.append(
                OfCondition(
                    suite=suite,
                    condition=name,
                    num_examples=sum(left[key] for key in keys),
                    seconds=seconds if len(known) == len(found) else None,
                    sources=tuple(each for each in Source if each in {every.source for every in known.values()}),
                )
            )
    return rows
