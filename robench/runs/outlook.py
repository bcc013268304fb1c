"""Outlook of a run: the hours that are left, by condition, and when it would end on more or fewer workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robench.core.identity import key_of, to_plain
from robench.core.protocols import Store
from robench.core.shard import Shard
from robench.datasets import open_dataset
from robench.runs.calibration import calibrated, flops_of
from robench.runs.checks import checks_in_subprocess
from robench.runs.estimate import Work, cost_of, pace_of, work_of
from robench.runs.prepare import PreparedRun
from robench.scheduling.pace import Pace, Paces, Source
from robench.scheduling.simulation import joined, makespan

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
        work: their work; a shard of several suites counts once.
        device: kind of device; None if workers are elsewhere.
        num_workers: number of worker processes; 0 for none, when the run measures in its own process.
        elsewhere: kind of the executor whose workers are on other machines; None for this machine's.
        conditions: work by suite and condition; one that suites share counts for each.
        seconds: time until the run ends on its own workers, their start included; None where it is unknown.
        seconds_on: the same by number of worker processes.
    """

    todo: Sequence[Shard]
    work: Work
    device: str | None
    num_workers: int
    elsewhere: str | None
    conditions: tuple[OfCondition, ...]
    seconds: float | None
    seconds_on: Mapping[int, float]


def outlook_of(run: PreparedRun, store: Store) -> Outlook:
    """Return the outlook of what ``store`` lacks of a run, by the time of earlier results, of passes or of operations.

    Operations are counted for models without times of their own, where their device has been calibrated.
    """
    todo = run.todo(store)
    paces = run.paces(store)
    unknown = {
        each.measurement.checkpoint.name
        for each in todo
        if (pace := pace_of(each.measurement, paces)) is None or pace.source is Source.TIMED_ON_CPU
    }
    if unknown:
        paces = run.paces(store, _counted(run, unknown))
    work, workers = work_of(todo, paces), run.workers(store)
    seconds_on: dict[int, float] = {}
    seconds = None
    if work.seconds is not None and todo:
        # An estimate of 64 workers needs no million shards.
        fewer, cost, startup = joined(todo), cost_of(paces), run.startup_seconds
        numbers = sorted({*NUMBERS_OF_WORKERS, len(workers.devices)} - {0})
        alone = {count: makespan(fewer, cost, count) for count in numbers}
        seconds_on = {count: startup + alone[count] for count in numbers}
        if workers.in_process:
            seconds = alone[1]
        elif workers.devices:
            seconds = seconds_on[len(workers.devices)]
    return Outlook(
        todo=todo,
        work=work,
        device=run.device_kind,
        num_workers=len(workers.devices) if workers.are_processes else 0,
        elsewhere=workers.executor.kind if workers.executor.is_elsewhere else None,
        conditions=tuple(_by_condition(run, todo, paces)),
        seconds=seconds,
        seconds_on=seconds_on,
    )


def _counted(run: PreparedRun, names: set[str]) -> dict[str, Pace]:
    """Return the seconds of a pass of models, from its operations and the calibration of the run's device."""
    found = None if run.device_kind is None else calibrated(run.device_kind)
    if found is None:
        return {}
    paces: dict[str, Pace] = {}
    # Models of one architecture have the same operations.
    counted: dict[str, int | None] = {}
    request, workers = run.request, run.workers()
    for checkpoint in (each for each in request.checkpoints if each.name in names):
        declared, module = request.datasets[0], request.modules.get(checkpoint.name)
        built = [to_plain(checkpoint.architecture), to_plain(checkpoint.preprocessing)]
        key = key_of([*built, checkpoint.name if module else ""])
        # Code of others runs in a process of its own, or not at all.
        if key not in counted and not checks_in_subprocess(checkpoint, request, workers):
            dataset = open_dataset(declared, data_root=request.data_root, preprocessing=checkpoint.preprocessing)
            counted[key] = flops_of(checkpoint, declared, dataset, module)
        if (flops := counted.get(key)) is not None:
            paces[checkpoint.name] = Pace(flops * found.seconds_per_flop, Source.COUNTED)
    return paces


def _by_condition(run: PreparedRun, todo: Sequence[Shard], paces: Paces) -> list[OfCondition]:
    left: dict[str, int] = {}
    for shard in todo:
        left[shard.measurement.key] = left.get(shard.measurement.key, 0) + shard.stop - shard.start
    rows = []
    for suite, measurements in run.measurements.items():
        for name in dict.fromkeys(each.condition.name for each in measurements):
            keys = {each.key: each for each in measurements if each.condition.name == name and each.key in left}
            found = {key: pace_of(each, paces) for key, each in keys.items()}
            known = {key: pace for key, pace in found.items() if pace is not None}
            seconds = sum(left[key] * pace.seconds for key, pace in known.items())
            rows.append(
                OfCondition(
                    suite=suite,
                    condition=name,
                    num_examples=sum(left[key] for key in keys),
                    seconds=seconds if len(known) == len(found) else None,
                    sources=tuple(each for each in Source if each in {pace.source for pace in known.values()}),
                )
            )
    return rows
