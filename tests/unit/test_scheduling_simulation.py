"""Simulated runs: how near the queue's order comes to the shortest possible run, and what it does to each shard."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import SimulatedWorker, Simulation, simulate

from examples import MEASUREMENT
from robench.core.shard import DatasetIdentity, Measurement, Shard, into_shards
from robench.declare import find_suites
from robench.scheduling.estimates import passes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Seconds of a forward and of a backward pass of an image: a DeiT-tiny's flops on a GPU, and the ratios of mechanisms to
# softmax in docs/performance.md.
FORWARD, BACKWARD = 3e-4, 6e-4
MODELS = {
    "softmax": (1.0, 1.0),
    "symmetric": (0.93, 0.96),
    "rpc": (1.03, 1.14),
    "scaled": (1.1, 1.15),
    "spkde": (4.8, 3.69),
}
LOAD_SECONDS = 20.0
PLAIN = SimulatedWorker()


def measured(model: str, condition: str, num_examples: int, batch_size: int = 10) -> Measurement:
    return replace(
        MEASUREMENT, checkpoint=replace(MEASUREMENT.checkpoint, name=model),
        condition=replace(MEASUREMENT.condition, name=condition), weights_digest=model,
        dataset=DatasetIdentity(name="digits", fingerprint=condition, num_examples=num_examples), batch_size=batch_size,
    )  # fmt: skip


def ideal_seconds(work: float, workers: Sequence[SimulatedWorker]) -> float:
    """Return the time in which live workers have the capacity for some work, by bisection."""

    def capacity(seconds: float) -> float:
        done = 0.0
        for each in workers:
            dies_at = inf if each.dies_at is None else each.dies_at
            returns_at = inf if each.returns_after is None else dies_at + each.returns_after
            done += each.speed * (min(seconds, dies_at) + max(0.0, seconds - returns_at))
        return done

    low, high = 0.0, work / min(each.speed for each in workers)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if capacity(middle) < work else (low, middle)
    return high


@pytest.fixture(scope="module")
def paper() -> tuple[list[Shard], Callable[[Shard], float]]:
    """Plan the attacks of the RPC paper for five models on all of ImageNet."""
    (suite,) = find_suites(("imagenet-adv-rpc",), (), None)
    data = DatasetIdentity(name="imagenet-1k", fingerprint="f", num_examples=50_000)
    changes = {"dataset": data, "batch_size": suite.batch_size}
    measurements, seconds = [], {}
    for model, (forward_ratio, backward_ratio) in MODELS.items():
        for condition in suite.conditions:
            each = replace(measured(model, condition.name, 0), condition=condition, **changes)
            _, forward, backward, is_known = passes_of(condition)
            assert is_known
            seconds[id(each)] = forward * forward_ratio * FORWARD + backward * backward_ratio * BACKWARD
            measurements.append(each)
    shards = list(into_shards(measurements, suite.batches_per_shard))
    # Shards hold their measurements, so that no other object can have one of these ids.
    return shards, lambda shard: (shard.stop - shard.start) * seconds[id(shard.measurement)]


LAYOUTS = {
    "1": [PLAIN],
    "8": [PLAIN] * 8,
    "64": [PLAIN] * 64,
    "64, one slow": [SimulatedWorker(speed=0.5), *[PLAIN] * 63],
    "64, one restarts": [SimulatedWorker(dies_at=20_000.0, returns_after=600.0), *[PLAIN] * 63],
    "8, one slow and one dies": [SimulatedWorker(dies_at=100_000.0), SimulatedWorker(speed=0.5), *[PLAIN] * 6],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One set of workers; ``tests/slow`` has the others."""
    if "workers" in metafunc.fixturenames:
        metafunc.parametrize("workers", [LAYOUTS["8, one slow and one dies"]], ids=["8, one slow and one dies"])


def test_a_run_ends_within_three_percent_and_a_unit_of_its_capacity(
    paper: tuple[list[Shard], Callable[[Shard], float]], workers: list[SimulatedWorker]
) -> None:
    shards, cost = paper
    total, longest = sum(map(cost, shards)), max(map(cost, shards))
    run = simulate(shards, cost, workers, load_seconds=LOAD_SECONDS, detection_seconds=60.0)
    ideal = ideal_seconds(total, workers)
    assert ideal <= run.makespan * (1 + 1e-9)
    assert run.makespan <= 1.03 * ideal + longest
    assert len(run.measured) == len(shards) == 5 * 22 * 1042
    assert set(run.measured.values()) == {1}
    assert run.num_loads <= 5 * (len(workers) + 1)


def test_a_short_run_is_even_at_its_end(paper: tuple[list[Shard], Callable[[Shard], float]]) -> None:
    shards, cost = paper
    # A few long units for each worker, the longest half as long as the run: in another order one of them is the last.
    few = [shard for shard in shards if shard.start < 480]
    ideal = sum(map(cost, few)) / 64
    assert max(map(cost, few)) > ideal / 3
    assert simulate(few, cost, [PLAIN] * 64).makespan <= 1.1 * ideal


def by_hand(*costs: float, workers: Sequence[SimulatedWorker] = (PLAIN,), **settings: float) -> Simulation:
    """Simulate shards of one model with the given costs."""
    shards = list(into_shards([measured("a", "c", 10 * len(costs))], 1))
    return simulate(shards, lambda shard: costs[shard.start // 10], workers, **settings)


def test_one_worker_works_without_a_break() -> None:
    run = by_hand(3.0, 2.0, 1.0, load_seconds=5.0)
    assert (run.makespan, run.busy_seconds, run.num_loads, run.lost_work) == (11.0, 11.0, 1, 0.0)


def test_speed_divides_work_and_not_loading() -> None:
    assert by_hand(3.0, workers=[SimulatedWorker(speed=0.5)], load_seconds=5.0).makespan == 11.0


def test_a_dead_worker_s_shard_is_given_back_after_its_detection() -> None:
    dying = SimulatedWorker(dies_at=2.0)
    run = by_hand(3.0, 3.0, workers=[dying, PLAIN], detection_seconds=10.0)
    # The other is idle from second 3 until the shard is back at second 12.
    assert (run.makespan, run.lost_work, run.busy_seconds) == (15.0, 2.0, 8.0)


def test_a_worker_returns_without_its_model_and_dies_once() -> None:
    dying = SimulatedWorker(dies_at=6.0, returns_after=4.0)
    run = by_hand(3.0, 2.0, workers=[dying], load_seconds=4.0, detection_seconds=1.0)
    assert (run.makespan, run.num_loads, run.lost_work) == (10.0 + 4.0 + 5.0, 2, 2.0)


def test_a_run_without_workers_left_never_ends() -> None:
    run = by_hand(3.0, 2.0, workers=[SimulatedWorker(dies_at=4.0)])
    assert run.makespan == inf
    assert len(run.measured) == 1


def test_an_idle_worker_that_died_meanwhile_gets_nothing() -> None:
    workers = [SimulatedWorker(dies_at=5.0), SimulatedWorker(dies_at=4.0), PLAIN]
    run = by_hand(9.0, 2.0, 2.0, workers=workers, detection_seconds=1.0)
    assert run.makespan == 6.0 + 9.0


WORKERS = st.builds(SimulatedWorker, speed=st.sampled_from([0.5, 1.0, 1.0, 2.0]))
DYING = st.builds(
    SimulatedWorker,
    speed=st.sampled_from([0.5, 1.0]),
    dies_at=st.floats(0.0, 30.0),
    returns_after=st.one_of(st.none(), st.floats(0.0, 10.0)),
)
# Of each measurement the model, the number of shards and the cost of one.
MEASURED = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.floats(0.0, 10.0)), min_size=1, max_size=8)


def planned(drawn: list[tuple[str, int, float]]) -> tuple[list[Shard], Callable[[Shard], float]]:
    each = {f"c{number}": cost for number, (_, _, cost) in enumerate(drawn)}
    shards = into_shards((measured(model, f"c{number}", 10 * size) for number, (model, size, _) in enumerate(drawn)), 1)
    return list(shards), lambda shard: each[shard.measurement.condition.name]


@given(drawn=MEASURED, workers=st.lists(WORKERS, min_size=1, max_size=6), load=st.floats(0.0, 5.0))
def test_no_plan_exceeds_the_bound_of_list_scheduling(
    drawn: list[tuple[str, int, float]], workers: list[SimulatedWorker], load: float
) -> None:
    shards, cost = planned(drawn)
    run = simulate(shards, cost, workers, load_seconds=load)
    speeds = [each.speed for each in workers]
    # No worker is idle before the last shard is taken, and loading is work as well.
    work = sum(map(cost, shards)) + run.num_loads * load * max(speeds)
    last = load + max(map(cost, shards)) / min(speeds)
    assert sum(map(cost, shards)) / sum(speeds) <= run.makespan + 1e-6
    assert run.makespan <= work / sum(speeds) + last + 1e-6
    assert run.measured == Counter(shard.key for shard in shards)
    assert run.num_loads <= len(shards)


@given(
    drawn=MEASURED,
    dying=st.lists(DYING, min_size=1, max_size=4),
    lasting=st.lists(WORKERS, min_size=1, max_size=2),
    detection=st.floats(0.0, 5.0),
)
def test_whoever_dies_each_shard_has_one_result(
    drawn: list[tuple[str, int, float]], dying: list[SimulatedWorker], lasting: list[SimulatedWorker], detection: float
) -> None:
    shards, cost = planned(drawn)
    run = simulate(shards, cost, [*dying, *lasting], load_seconds=1.0, detection_seconds=detection)
    assert run.measured == Counter(shard.key for shard in shards)
    # Those that last do everything, and each shard that is lost waits for its detection.
    work = sum(map(cost, shards)) + run.lost_work
    slowest = min(each.speed for each in [*dying, *lasting])
    delays = (1 + len(dying)) * (max(map(cost, shards)) / slowest + detection + 1.0)
    loads = run.num_loads * 1.0 * max(each.speed for each in [*dying, *lasting])
    assert run.makespan <= (work + loads) / sum(each.speed for each in lasting) + delays + 1e-6
