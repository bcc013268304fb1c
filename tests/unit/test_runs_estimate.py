"""Estimated work of a run, and the workers that are chosen by it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from examples import CHECKPOINT, MEASUREMENT, PGD, SHARD
from robench.core.shard import Shard
from robench.core.suite import Condition
from robench.declare import find_checkpoints, find_suites
from robench.perturbations.clean import Clean
from robench.perturbations.sweep import Sweep
from robench.runs import RunRequest, prepare
from robench.runs.estimate import STARTUP_SECONDS, work_of
from robench.scheduling.pace import Pace, Paces, Source, passes_of
from robench.store import MemoryStore

NAME = CHECKPOINT.name


def shard_of(perturbation: object, num_examples: int = 100, **changes: object) -> Shard:
    condition = Condition(name="c", dataset=MEASUREMENT.condition.dataset, perturbation=perturbation, **changes)  # type: ignore[arg-type]  # declarations
    return Shard(measurement=replace(MEASUREMENT, condition=condition), start=0, stop=num_examples)


def timed(seconds: float) -> Paces:
    return Paces({NAME: Pace(seconds, Source.TIMED)})


def test_passes_are_those_of_the_attacks_and_of_scoring() -> None:
    passes = PGD.most_passes
    assert passes is not None
    work = work_of([shard_of(Clean()), shard_of(PGD, 50)], Paces())
    assert (work.forward, work.backward) == (100 + 50 * (1 + passes[0]), 50 * passes[1])
    assert (work.is_whole, work.seconds) == (True, None)
    assert work_of([shard_of(Clean(), num_predictions=5)], Paces()).forward == 500
    assert work_of([], Paces()).seconds == 0


def test_a_sweep_is_scored_at_each_budget() -> None:
    sweep = Sweep(attacks=tuple(replace(PGD, epsilon=Fraction(level, 255)) for level in (4, 8)))
    passes = sweep.most_passes
    assert passes is not None
    assert work_of([shard_of(sweep)], Paces()).forward == 100 * (2 + passes[0])


def test_seconds_are_those_of_the_timed_passes() -> None:
    clean = work_of([shard_of(Clean())], timed(0.03))
    assert clean.seconds == pytest.approx(100 * 0.03 / 3)
    forward, backward = PGD.most_passes or (0, 0)
    attacked = work_of([shard_of(PGD)], timed(0.03))
    assert attacked.seconds == pytest.approx(100 * (0.01 * (1 + forward) + 0.02 * backward))
    other = replace(SHARD, measurement=replace(MEASUREMENT, checkpoint=replace(CHECKPOINT, name="untimed")))
    assert work_of([shard_of(Clean()), other], timed(0.03)).seconds is None


def test_the_passes_of_a_suite_are_those_of_its_cost() -> None:
    (suite,) = find_suites(("digits-adv",), (), None)
    request = RunRequest(suites=(suite,), checkpoints=tuple(find_checkpoints(["digits-vit"], [])), audit=False)
    prepared = prepare(request)
    work = prepared.work(MemoryStore())
    passes = [passes_of(each) for each in suite.conditions]
    assert (work.forward, work.backward) == tuple(600 * sum(each[place] for each in passes) for place in (1, 2))
    assert set(prepared.seconds_per_example) == {"digits-vit"}
    assert work.seconds is not None
    assert 0 < work.seconds < 3600


@pytest.mark.parametrize(
    ("seconds", "num_workers", "is_alone"),
    [
        (1.0, 2, True),
        (2 * STARTUP_SECONDS - 0.1, 2, True),
        (2 * STARTUP_SECONDS + 0.1, 2, False),
        (1e6, 64, False),
        (1e6, 1, True),
        (None, 2, False),
    ],
)
def test_one_process_is_faster_where_others_start_for_longer(
    seconds: float | None, num_workers: int, is_alone: bool
) -> None:
    work = replace(work_of([], Paces()), seconds=seconds)
    assert work.is_faster_alone(num_workers) is is_alone


@pytest.mark.parametrize(
    ("seconds", "asked", "in_process"),
    [
        (1e-6, {}, True),
        (100.0, {}, False),
        (None, {}, False),
        (1e-6, {"workers": 2}, False),
        (1e-6, {"executor": "processes"}, False),
        (1e-6, {"shard_timeout": 60.0}, False),
        (100.0, {"executor": "serial"}, True),
    ],
)
def test_workers_start_where_they_help_or_are_asked_for(
    seconds: float | None, asked: dict[str, object], in_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robench.runs.devices.os.sched_getaffinity", lambda _: {0, 1})
    (suite,) = find_suites(("digits-adv",), (), None)
    checkpoints = tuple(find_checkpoints(["digits-vit"], []))
    request = RunRequest(suites=(suite,), checkpoints=checkpoints, device="cpu", **asked)  # type: ignore[arg-type]  # fields
    prepared = prepare(request)
    timed = {} if seconds is None else {"digits-vit": seconds}
    assert replace(prepared, seconds_per_example=timed).workers(MemoryStore()).in_process is in_process
