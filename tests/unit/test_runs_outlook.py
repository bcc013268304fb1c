"""Outlook of a run: hours by condition and by number of workers, and where they are from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Robench

from examples import PROVENANCE, record_of
from robench.cli.terminal import duration
from robench.costs import DEFAULT_RULE
from robench.costs.counting import counts_of
from robench.declare import find_checkpoints, find_suites
from robench.evaluation.arithmetic import device_kind
from robench.runs import PreparedRun, RunRequest, choose_workers, prepare
from robench.runs.outlook import NUMBERS_OF_WORKERS, outlook_of
from robench.scheduling.estimates import STARTUP_SECONDS, Estimate, Source, weighted_passes, work_of
from robench.store import MemoryStore

SECONDS = 0.02
CPU = device_kind(torch.device("cpu"))


@pytest.fixture(scope="module")
def prepared() -> PreparedRun:
    suites = find_suites(("digits-adv", "digits-sweep"), (), None)
    checkpoints = tuple(find_checkpoints(["digits-vit", "digits-symvit"], []))
    found = prepare(RunRequest(suites=suites, checkpoints=checkpoints, device="cpu", audit=False))
    return replace(found, seconds_per_example=dict.fromkeys(found.seconds_per_example, SECONDS))


def store_with(prepared: PreparedRun, condition: str, seconds: float, device: str = CPU) -> MemoryStore:
    """Return a store with the first shard of a condition of digits-vit."""
    shards = [each for each in prepared.shards if each.measurement.condition.name == condition]
    first = next(each for each in shards if each.measurement.checkpoint.name == "digits-vit")
    store = MemoryStore()
    store.put(record_of(first.header, provenance=replace(PROVENANCE, device=device, seconds=seconds)))
    return store


def test_a_total_counts_what_suites_share_once(prepared: PreparedRun) -> None:
    outlook = outlook_of(prepared, MemoryStore())
    shared = {"digits-adv": 0.0, "digits-sweep": 0.0}
    for each in outlook.conditions:
        assert each.num_examples == 1200
        assert each.sources == (Source.TIMED,)
        assert each.seconds is not None
        shared[each.suite] += each.seconds if each.condition == "clean" else 0.0
    passes = weighted_passes(prepared.shards[0].measurement.condition)
    assert passes is not None
    assert shared == {name: pytest.approx(1200 * SECONDS * passes) for name in shared}
    total = sum(each.seconds or 0.0 for each in outlook.conditions)
    assert outlook.work.seconds == pytest.approx(total - shared["digits-adv"])
    assert outlook.work.sources == {Source.TIMED: len({each.key for each in prepared.shards})}


def test_measured_seconds_come_before_timed_passes(prepared: PreparedRun) -> None:
    store = store_with(prepared, "pgd", 500.0)
    outlook = outlook_of(prepared, store)
    rows = {(each.suite, each.condition): each for each in outlook.conditions}
    pgd = rows["digits-adv", "pgd"]
    # Of digits-vit 500 examples at the measured 5 s, and 600 of the other model by its timed passes.
    condition = next(each.measurement.condition for each in prepared.shards if each.measurement.condition.name == "pgd")
    passes = weighted_passes(condition)
    assert passes is not None
    assert pgd.seconds == pytest.approx(500 * 5.0 + 600 * SECONDS * passes)
    assert pgd.sources == (Source.MEASURED, Source.TIMED)
    assert rows["digits-adv", "fgsm"].sources == (Source.SCALED, Source.TIMED)
    # The queue puts shards in order by the same numbers.
    cost = prepared.estimates(store).cost()
    measured = next(each for each in prepared.todo(store) if each.measurement.condition is condition)
    assert cost(measured) == pytest.approx(100 * 5.0)


def test_results_of_another_kind_of_device_do_not_count(prepared: PreparedRun) -> None:
    outlook = outlook_of(prepared, store_with(prepared, "pgd", 500.0, "NVIDIA H200"))
    assert {source for each in outlook.conditions for source in each.sources} == {Source.TIMED}


def test_more_workers_end_sooner_down_to_the_longest_shard(prepared: PreparedRun) -> None:
    outlook = outlook_of(prepared, MemoryStore())
    assert set(outlook.seconds_on) >= set(NUMBERS_OF_WORKERS)
    ends = [outlook.seconds_on[count] - STARTUP_SECONDS for count in NUMBERS_OF_WORKERS]
    assert outlook.work.seconds is not None
    longest = max(map(prepared.estimates(MemoryStore()).cost(), outlook.todo))
    assert ends[0] == pytest.approx(outlook.work.seconds)
    for count, end in zip(NUMBERS_OF_WORKERS, ends, strict=True):
        assert end == pytest.approx(max(longest, outlook.work.seconds / count))
    expected = outlook.seconds_on[outlook.num_workers] if outlook.num_workers else ends[0]
    assert outlook.seconds == pytest.approx(expected)


def test_at_a_stated_speed_the_seconds_of_a_pass_are_those_of_its_operations(prepared: PreparedRun) -> None:
    untimed = replace(prepared, seconds_per_example={})
    unknown = outlook_of(untimed, MemoryStore())
    assert (unknown.work.seconds, unknown.seconds, unknown.seconds_on) == (None, None, {})
    assert {each.seconds for each in unknown.conditions} == {None}
    outlook = outlook_of(prepared, MemoryStore(), flops_per_second=1e9)
    assert outlook.work.sources.keys() == {Source.COUNTED}
    clean = next(each for each in outlook.conditions if each.condition == "clean")
    counts = [counts_of(each.name, each.architecture, each.preprocessing) for each in prepared.request.checkpoints]
    # A forward pass of both models is 1 of 3 parts of a pair; a pair is 2.3 forward passes of two operations a term.
    flops = sum(2.3 * 2 * each.multiply_adds(DEFAULT_RULE) for each in counts)
    assert clean.seconds == pytest.approx(600 * flops / 3 / 1e9)


def test_passes_timed_on_a_cpu_serve_a_gpu_of_no_speed(prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedRun, "device_kind", "NVIDIA H200")
    measurement = prepared.shards[-1].measurement
    passes = weighted_passes(measurement.condition)
    assert passes is not None
    alone = prepared.estimates(MemoryStore()).of_measurement(measurement)
    assert alone == Estimate(pytest.approx(SECONDS * passes), Source.TIMED_ON_CPU)
    counted = {measurement.checkpoint.name: Estimate(1e-4, Source.COUNTED)}
    both = prepared.estimates(MemoryStore(), counted).of_measurement(measurement)
    assert both == Estimate(pytest.approx(1e-4 * passes), Source.COUNTED)


def test_a_dry_run_prints_hours(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    asked = ("run", "--suite", small_suite(), "--model", "digits-vit", "--results", tmp_path / "r", "--device", "cpu")
    plan = json.loads(robench(*asked, "--dry-run", "--json").stdout)
    assert plan["device"] == CPU
    assert list(plan["seconds_until_end_on_workers"])[:2] == ["1", "2"]
    assert {each["suite"] for each in plan["conditions"]} == {"small"}
    assert sum(each["seconds"] for each in plan["conditions"]) == pytest.approx(plan["seconds"])
    assert sum(plan["shards_by_source"].values()) == plan["todo"] == 9
    shown = robench(*asked, "--dry-run").stdout
    assert "of CPU time, from a few timed passes (9 shards)" in shown
    assert "until the end" in shown
    assert " on 64" in shown
    stated = robench(*asked, "--dry-run", "--device-speed", 0.001).stdout
    assert "of CPU time, from counted operations at the stated speed (9 shards)" in stated
    refused = robench(*asked, "--device-speed", 1)
    assert (refused.code, refused.stderr) == (2, "Error: --device-speed is for the hours of --dry-run; add it\n")
    assert robench(*asked).code == 0
    done = robench(*asked, "--dry-run")
    assert done.stdout == "9 shards, 9 kept, 0 to do (0 examples)\n"


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
    prepared: PreparedRun,
    seconds: float | None,
    asked: dict[str, Any],
    in_process: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("robench.runs.devices.os.sched_getaffinity", lambda _: {0, 1})
    request = replace(prepared.request, **asked)
    workers = choose_workers("cpu", request.workers, request.executor, request.shard_timeout)
    timed = {} if seconds is None else dict.fromkeys(prepared.seconds_per_example, seconds)
    run = replace(prepared, request=request, asked=workers, seconds_per_example=timed)
    assert run.workers(work_of(run.shards, run.estimates(MemoryStore()))).in_process is in_process


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01, "1 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (5999, "100 min"),
        (6000, "1.7 h"),
        (359_999, "100.0 h"),
        (3.6e7, "10,000 h"),
    ],
)
def test_durations_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
