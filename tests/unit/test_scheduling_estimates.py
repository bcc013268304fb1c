"""Estimates of time: of shards by what was measured first, of a suite by stored results, of a queue of trainings."""

from __future__ import annotations

import heapq
import json
import tarfile
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT, Robench

from examples import CHECKPOINT, MEASUREMENT, PGD, PROVENANCE, failure_of, record_of
from robench.attacks.square import Square
from robench.cli.store_command import _seconds_left as seconds_left
from robench.core.shard import into_shards
from robench.core.suite import Condition
from robench.declare import find_checkpoints, find_suite
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of
from robench.perturbations.clean import Clean
from robench.reports.holdings import Holding
from robench.reports.selection import Coverage
from robench.runs import training_queue
from robench.runs.training_queue import Job
from robench.scheduling.estimates import (
    FORWARD_FRACTION,
    STARTUP_SECONDS,
    Estimate,
    Estimates,
    Source,
    TimeLeft,
    Work,
    weighted,
    weighted_passes,
    work_of,
)
from robench.scheduling.queue import ShardQueue
from robench.store import FolderStore
from robench.training.base import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from robench.core.declared import Perturbation
    from robench.core.shard import Shard

FACTOR = 3.0


def condition(name: str, perturbation: Perturbation) -> Condition:
    return Condition(name=name, dataset=MEASUREMENT.condition.dataset, perturbation=perturbation)


def condition_of(passes: int) -> Condition:
    """Return a condition whose attack asks for so many forward passes, its scoring included."""
    queries = Square(epsilon=Fraction(8, 255), num_queries=passes - 1, p_init=0.8)
    found = condition("square", queries)
    assert weighted_passes(found) == pytest.approx(FORWARD_FRACTION * passes)
    return found


TEN, HUNDRED = condition_of(10), condition_of(100)


@pytest.mark.parametrize(
    ("forward", "backward", "pairs"),
    [(0, 0, 0.0), (1, 1, 1.0), (1, 0, FORWARD_FRACTION), (21, 20, 20 + FORWARD_FRACTION)],
)
def test_a_forward_pass_is_a_third_of_a_pair(forward: int, backward: int, pairs: float) -> None:
    assert weighted(forward, backward) == pytest.approx(pairs)


def test_a_measurement_takes_the_mean_of_its_own_examples_whatever_its_passes() -> None:
    found = Estimates({"m": Estimate(9.0, Source.TIMED)})
    found.add("a", "m", TEN, 8.0, 20)
    found.add("a", "m", TEN, 2.0, 20)
    assert found.of("a", "m", HUNDRED) == Estimate(0.25, Source.MEASURED)


def test_other_conditions_scale_by_the_median_of_the_model_s_ratios() -> None:
    found = Estimates({"m": Estimate(9.0, Source.TIMED), "other": Estimate(3.0, Source.COUNTED)})
    for key, each, seconds in (("a", TEN, 2.0), ("b", TEN, 1.0), ("c", HUNDRED, 40.0)):
        found.add(key, "m", each, seconds, 1)
    assert found.of("d", "m", HUNDRED) == Estimate(pytest.approx(20.0), Source.SCALED)
    assert found.of("d", "other", TEN) == Estimate(pytest.approx(3.0 * 10 * FORWARD_FRACTION), Source.COUNTED)
    assert found.of("d", "unknown", TEN) is None


def test_many_passes_are_not_scaled_from_a_few_where_a_pass_was_timed() -> None:
    thousand = condition_of(1000)
    for timed, seconds in ((True, 9.0), (False, 6.0)):
        found = Estimates({"m": Estimate(9.0, Source.TIMED)} if timed else None)
        found.add("clean", "m", TEN, 6.0 * 10 * FORWARD_FRACTION, 1)
        estimate = found.of("a", "m", thousand)
        assert estimate is not None
        assert estimate.seconds == pytest.approx(seconds * 1000 * FORWARD_FRACTION)
        assert found.of("b", "m", HUNDRED) == Estimate(pytest.approx(6.0 * 100 * FORWARD_FRACTION), Source.SCALED)


def shards_of(conditions: Sequence[Condition], models: Sequence[str], batch_size: int = 100) -> list[Shard]:
    measurements = [
        replace(
            MEASUREMENT,
            checkpoint=replace(CHECKPOINT, name=name),
            condition=each,
            weights_digest=f"{number:064x}",
            batch_size=AUDIT_EXAMPLES if each.num_examples == AUDIT_EXAMPLES else batch_size,
        )
        for number, name in enumerate(models)
        for each in conditions
    ]
    return list(into_shards(measurements, 1))


def test_models_of_unknown_time_cost_the_mean_of_the_others() -> None:
    a, b, c = (shards_of([TEN], [name])[0] for name in "abc")
    known = Estimates({"a": Estimate(1.0, Source.TIMED), "b": Estimate(3.0, Source.TIMED)}).cost()
    passes = (a.stop - a.start) * 10 * FORWARD_FRACTION
    assert [known(each) for each in (a, b, c)] == pytest.approx([passes, 3 * passes, 2 * passes])
    assert Estimates().cost()(c) == pytest.approx(passes)


def test_work_is_the_passes_and_seconds_of_its_shards() -> None:
    shards = shards_of([condition("clean", Clean()), condition("pgd", PGD)], ["m"])
    size, (forward, backward) = sum(each.stop - each.start for each in shards) // 2, PGD.most_passes or (0, 0)
    work = work_of(shards, Estimates({"m": Estimate(0.03, Source.TIMED)}))
    assert (work.forward, work.backward, work.is_whole) == (size * (2 + forward), size * backward, True)
    assert work.seconds == pytest.approx(size * (0.01 * (2 + forward) + 0.02 * backward))
    assert work.seconds_on(10**6) == pytest.approx(work.longest)
    assert work.longest == pytest.approx(100 * (0.01 * (1 + forward) + 0.02 * backward))
    unknown = work_of([*shards, *shards_of([TEN], ["untimed"])], Estimates({"m": Estimate(0.03, Source.TIMED)}))
    assert (unknown.seconds, unknown.known_seconds) == (None, pytest.approx(work.seconds))
    assert work_of([], Estimates()).seconds == 0


@pytest.mark.parametrize(
    ("seconds", "num_workers", "is_alone"),
    [
        (2 * STARTUP_SECONDS - 0.1, 2, True),
        (2 * STARTUP_SECONDS + 0.1, 2, False),
        (1e6, 64, False),
        (1e6, 1, True),
        (None, 2, False),
    ],
)
def test_one_process_is_faster_where_others_start_long(seconds: float | None, num_workers: int, is_alone: bool) -> None:
    sources = {None: 1} if seconds is None else {Source.TIMED: 1}
    work = Work(forward=0, backward=0, is_whole=True, known_seconds=seconds or 0.0, sources=sources)
    assert work.is_faster_alone(num_workers) is is_alone


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], float]:
    """The seconds of the shards of ``make demo``, by model, condition and first example."""
    folder: Path = tmp_path_factory.mktemp("demo")
    with tarfile.open(ROOT / "reports" / "demo.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return {
        (each.shard.checkpoint, each.shard.condition, each.shard.start): each.provenance.seconds
        for each in FolderStore(folder).records(lambda shard: True)
    }


def course(
    shards: Sequence[Shard], seconds: Callable[[Shard], float], num_workers: int, estimates: Estimates
) -> tuple[list[tuple[float, float]], float]:
    """Simulate a run; return the second of each result with what was then said, and the second of the last one."""
    queue = ShardQueue(shards, estimates.cost(), is_alone=num_workers == 1)
    now, order = 0.0, count()
    left = TimeLeft(shards, num_workers, estimates, clock=lambda: now)
    ends: list[tuple[float, int, int, Shard]] = []
    said = []

    def begin(worker: int) -> None:
        if (shard := queue.take(worker)) is not None:
            left.begins(shard)
            heapq.heappush(ends, (now + seconds(shard), next(order), worker, shard))

    for worker in range(num_workers):
        begin(worker)
    while ends:
        now, _, worker, shard = heapq.heappop(ends)
        left.ends(replace(record_of(shard.header), provenance=replace(PROVENANCE, seconds=seconds(shard))))
        begin(worker)
        if (found := left.seconds()) is not None:
            said.append((now, found))
    return said, now


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_time_left_of_the_demo_within_a_factor_of_three(
    demo: dict[tuple[str, str, int], float], num_workers: int
) -> None:
    suite = find_suite("digits-adv")
    models = list(dict.fromkeys(model for model, _, _ in demo))
    shards = shards_of([*audits_of(suite), *suite.conditions], models)
    assert len(shards) == len(demo) == 111

    def seconds(shard: Shard) -> float:
        return demo[shard.measurement.checkpoint.name, shard.measurement.condition.name, shard.start]

    timed = Estimates({model: Estimate(0.002, Source.TIMED) for model in models})
    said, end = course(shards, seconds, num_workers, timed)
    # The passes of audits, which come first, are unknown.
    assert said[0][0] < end / 2
    found = [(end - now, left) for now, left in said]
    # An estimate is at most a second old, and a shard may end within it.
    assert [each for each in found if not (each[0] - 1) / FACTOR <= each[1] <= FACTOR * (each[0] + 1)] == []


def test_the_time_left_is_the_work_over_the_workers_and_at_least_the_longest_shard() -> None:
    now = 0.0
    first, second, third, *_ = shards_of([condition("clean", Clean())], ["m"], batch_size=10)
    left = TimeLeft([first, second, third], 2, Estimates({"m": Estimate(0.3, Source.TIMED)}), clock=lambda: now)
    left.begins(first)
    left.begins(second)
    # Three shards of 10 examples at a third of 0.3 s on two workers.
    assert left.seconds() == pytest.approx(1.5)
    now = 5.0
    left.ends(replace(record_of(first.header), provenance=replace(PROVENANCE, seconds=5.0)))
    assert left.seconds() == pytest.approx(5.0)
    left.stops(second)
    now = 7.0
    assert left.seconds() == pytest.approx(5.0)


def test_a_failed_shard_says_nothing_of_the_others() -> None:
    now = 0.0
    shard, *others = shards_of([condition("clean", Clean())], ["m"], batch_size=10)
    left = TimeLeft([shard, *others], 1, clock=lambda: now)
    left.begins(shard)
    left.ends(failure_of(shard.header, "no luck"))
    assert left.seconds() is None


SUITE = find_suite("digits-adv")
PASSES = {each.name: weighted_passes(each) or 0.0 for each in SUITE.conditions}
OTHER = replace(PROVENANCE, device="NVIDIA H200", seconds=0.01, finished_at="2026-11-20T11:00:00+00:00")


def holding(**records: list[float]) -> Holding:
    """Return a holding with records of 20 examples that took these seconds, of conditions of 600 examples."""
    coverages = {}
    for condition in SUITE.conditions:
        provenances = [replace(PROVENANCE, seconds=each) for each in records.get(condition.name, [])]
        coverages[condition.name] = Coverage(
            condition=condition.name, num_wanted=600, records=tuple(record_of(provenance=each) for each in provenances),
            failures=(), has_older=False,
        )  # fmt: skip
    facts = {"suite": SUITE.name, "dataset": None, "model": "m", "measurements": frozenset[str]()}
    return Holding(**facts, coverages=coverages, num_failed=0, seconds=0.0, is_named=True)  # type: ignore[arg-type]  # its fields


def test_a_condition_goes_on_as_it_began_and_others_follow_by_passes() -> None:
    left = seconds_left(SUITE, holding(pgd=[2.0, 6.0]))
    assert left["pgd"] == pytest.approx(560 * 8.0 / 40)
    assert left["clean"] == pytest.approx(600 * 0.2 * PASSES["clean"] / PASSES["pgd"])


def test_without_results_nothing_is_known() -> None:
    assert set(seconds_left(SUITE, holding()).values()) == {None}


def test_only_the_device_of_the_latest_result_counts() -> None:
    held = holding(pgd=[2.0])
    coverage = held.coverages["pgd"]
    both = replace(coverage, records=(*coverage.records, record_of(provenance=OTHER)))
    left = seconds_left(SUITE, replace(held, coverages={**held.coverages, "pgd": both}))
    assert left["pgd"] == pytest.approx(560 * 0.1)


def test_a_complete_condition_has_nothing_left() -> None:
    held = holding(clean=[0.1])
    whole = replace(held.coverages["clean"], num_wanted=20)
    assert seconds_left(SUITE, replace(held, coverages={**held.coverages, "clean": whole}))["clean"] == 0.0


@pytest.mark.slow
def test_status_prints_the_time_left_of_each_model(robench: Robench, tmp_path: Path) -> None:
    run = ("run", "--suite", "digits-adv", "--model", "digits-vit", "--executor", "serial", "--no-audit")
    assert robench(*run, "--limit", 100, "--results", tmp_path).code == 0
    asked = ("status", "--suite", "digits-adv", "--results", tmp_path)
    rows = json.loads(robench(*asked, "--json").stdout)
    took = {each.shard.condition: each.provenance.seconds for each in FolderStore(tmp_path).manifests()}
    for row in rows:
        assert row["seconds_left"] == pytest.approx(5 * took[row["condition"]], abs=0.06)
    shown = robench(*asked)
    assert "digits-vit under digits-adv: about " in shown.stderr
    assert " left on one worker" in shown.stderr
    assert "seconds_left" in shown.stdout


NUM_EPOCHS = 100


def said_in(names: list[str], epoch_seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Return what a queue of one process says of the time left, with the truth, after each epoch."""
    done, now = dict.fromkeys(names, 0), 0.0
    host = Host(data_root=None, device="cpu", micro_batch_size=None, decode_workers=1, state_path=None)
    jobs = [Job(checkpoint=each, host=host, history=Path(each.name)) for each in find_checkpoints(names)]
    monkeypatch.setattr(training_queue, "_epochs", lambda job: (None,) * done[job.checkpoint.name])
    monkeypatch.setattr(training_queue.time, "monotonic", lambda: now)
    end = sum(30 + seconds * (NUM_EPOCHS - 1) for seconds in epoch_seconds)
    clock, said = training_queue._Clock(jobs, 1), []
    for job, seconds in zip(jobs, epoch_seconds, strict=True):
        clock.moved([job])
        for epoch in range(NUM_EPOCHS):
            # Libraries and data are loaded in the first one.
            now += seconds if epoch else 30
            done[job.checkpoint.name] += 1
            clock.moved([job])
            if (found := clock.progress.seconds_left) is not None and now < end:
                said.append((found, end - now))
        clock.ended(job)
    return said


@pytest.mark.parametrize(
    ("names", "epoch_seconds", "num_said"),
    [
        (["digits-vit", "digits-rpc-symvit"], [1.0, 10.0], NUM_EPOCHS - 2),
        (["digits-vit", "digits-vit@1", "digits-vit@2"], [4.0, 4.0, 4.0], 3 * NUM_EPOCHS - 2),
    ],
)
def test_it_is_said_within_a_factor_of_three(
    names: list[str], epoch_seconds: list[float], num_said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = said_in(names, epoch_seconds, monkeypatch)
    assert abs(len(said) - num_said) <= 1
    assert [each for each in said if not each[1] / 3 <= each[0] <= 3 * each[1]] == []
