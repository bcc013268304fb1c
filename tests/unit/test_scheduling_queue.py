"""The queue of shards: order, affinity of workers to models, shards that other runs have claimed, and growth."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import MEASUREMENT
from robench.core import shard as shard_module
from robench.core.protocols import Claimed
from robench.core.shard import DatasetIdentity, Measurement, Shard, into_shards
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.evaluation.actions import Audit
from robench.perturbations.clean import Clean
from robench.runs.prepare import missing, part_of
from robench.scheduling import ShardQueue
from robench.scheduling import queue as queue_module
from robench.scheduling.queue import InTurn


def measurement(model: str, condition: str = "c", num_examples: int = 300, **changes: Any) -> Measurement:
    declared = Condition(name=condition, dataset=DIGITS, perturbation=MEASUREMENT.condition.perturbation, **changes)
    data = DatasetIdentity(name="digits", fingerprint=condition, num_examples=num_examples)
    checkpoint = replace(MEASUREMENT.checkpoint, name=model)
    return replace(MEASUREMENT, checkpoint=checkpoint, condition=declared, dataset=data, weights_digest=model * 4)


def shards_of(*measurements: Measurement) -> list[Shard]:
    return list(into_shards(measurements, batches_per_shard=1))


def taken(queue: ShardQueue, workers: Sequence[str]) -> list[Shard]:
    """Take all shards, each worker in turn."""
    found = []
    while len(queue):
        for worker in workers:
            if (shard := queue.take(worker)) is not None:
                found.append(shard)
    return found


class Answering:
    """Claims with prepared answers by shard key; the last one stays."""

    def __init__(self, answers: dict[str, list[Claimed]]) -> None:
        self.answers = answers
        self.asked: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def claim(self, measurement_key: str, key: str) -> Claimed:
        self.asked[key] += 1
        left = self.answers.get(key, [Claimed.MINE])
        return left.pop(0) if len(left) > 1 else left[0]

    def release(self, key: str) -> None:
        pass


@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=4), num_workers=st.integers(1, 5))
def test_every_shard_is_taken_once_whoever_takes_it(sizes: list[int], num_workers: int) -> None:
    shards = shards_of(*(measurement(f"m{number}", num_examples=size) for number, size in enumerate(sizes)))
    queue = ShardQueue(shards)
    assert len(queue) == len(shards)
    found = taken(queue, [str(number) for number in range(num_workers)])
    assert sorted(shard.key for shard in found) == sorted(shard.key for shard in shards)
    assert queue.take("0") is None


@given(
    sizes=st.lists(st.integers(1, 800), min_size=1, max_size=3),
    num_workers=st.integers(1, 5),
    order=st.randoms(use_true_random=False),
)
def test_a_worker_takes_the_next_unless_others_idle(sizes: list[int], num_workers: int, order: random.Random) -> None:
    shards = shards_of(*(measurement(f"m{number}", num_examples=size) for number, size in enumerate(sizes)))
    queue, expected, found = ShardQueue(shards), {}, []
    while len(queue):
        worker = order.randrange(num_workers)
        if (shard := queue.take(worker)) is None:
            continue
        found.append(shard.key)
        promised = expected.pop(worker, None)
        left = promised is None or promised.measurement.checkpoint != shard.measurement.checkpoint
        assert left or shard is promised or promised.key in found
        # Another worker's only where all of the model are.
        if any(shard is each for each in expected.values()):
            free = [each for each in shards if each.key not in found and each not in expected.values()]
            assert all(each.measurement.checkpoint != shard.measurement.checkpoint for each in free)
        if (following := queue.following(worker)) is not None:
            assert following.measurement.checkpoint == shard.measurement.checkpoint
            assert all(following is not each for each in expected.values())
            expected[worker] = following
    assert sorted(found) == sorted(shard.key for shard in shards)


def test_workers_of_a_model_expect_different_shards_and_leave_them_to_each_other() -> None:
    first, second, third, fourth = shards_of(measurement("a", num_examples=400))
    queue = ShardQueue([first, second, third, fourth])
    assert queue.following("v") is None  # it holds no model
    assert [queue.take(worker) for worker in "vw"] == [first, second]
    assert [queue.following(worker) for worker in "vwv"] == [third, fourth, third]
    # Nothing is claimed by that.
    assert len(queue) == 2
    assert queue.take("w") is fourth
    # An idle worker does not wait for others.
    assert queue.take("u") is third
    assert queue.take("v") is None
    assert queue.following("v") is None


def test_the_first_queue_says_what_follows_until_it_is_empty() -> None:
    *first, last = shards_of(measurement("a", num_examples=300))
    later = shards_of(measurement("b", num_examples=200))
    work = InTurn([ShardQueue([*first, last]), ShardQueue(later)])
    work.take("w")
    assert work.following("w") is first[1]
    assert [work.take("w") for _ in range(3)] == [first[1], last, later[0]]
    assert work.following("w") is later[1]


def test_a_single_worker_follows_the_plan_where_all_cost_the_same() -> None:
    shards = shards_of(measurement("a"), measurement("a", "d"), measurement("b"))
    assert taken(ShardQueue(shards), ["w"]) == shards


def test_the_longest_shards_of_a_model_come_first() -> None:
    shards = shards_of(measurement("a", "cheap"), measurement("a", "dear"), measurement("a", "free"))
    costs = {"cheap": 2.0, "dear": 3.0, "free": 0.0}
    queue = ShardQueue(shards, lambda shard: costs[shard.measurement.condition.name])
    found = [shard.measurement.condition.name for shard in taken(queue, ["w"])]
    assert found == ["dear"] * 3 + ["cheap"] * 3 + ["free"] * 3


def test_audits_come_before_longer_shards() -> None:
    audit = measurement("a", "audit", num_examples=100, action=Audit())
    audit = replace(audit, condition=replace(audit.condition, perturbation=Clean()))
    queue = ShardQueue(shards_of(measurement("a", "attack"), audit), lambda shard: 1.0 + (shard.start > 0))
    first = queue.take("w")
    assert first is not None
    assert first.measurement.condition.name == "audit"


def test_workers_keep_to_their_model_while_it_has_shards() -> None:
    queue = ShardQueue(shards_of(measurement("a", num_examples=1000), measurement("b", num_examples=1000)))
    models: dict[str, list[str]] = {"v": [], "w": []}
    for _ in range(10):
        for worker, seen in models.items():
            shard = queue.take(worker)
            assert shard is not None
            seen.append(shard.measurement.checkpoint.name)
    assert models == {"v": ["a"] * 10, "w": ["b"] * 10}


def test_a_worker_without_a_model_goes_to_the_one_with_most_work_for_each_of_its_workers() -> None:
    queue = ShardQueue(shards_of(measurement("a", num_examples=400), measurement("b", num_examples=1000)))
    models = [queue.take(worker).measurement.checkpoint.name for worker in "uvw"]  # type: ignore[union-attr]
    # b has 1,000, then 900 for two workers, then 800 for three; a has 400.
    assert models == ["b", "b", "a"]


def test_a_worker_alone_goes_to_the_next_model_of_the_plan() -> None:
    shards = shards_of(measurement("a", num_examples=100), measurement("b", num_examples=900), measurement("c"))
    assert taken(ShardQueue(shards, is_alone=True), ["w"]) == shards
    assert taken(ShardQueue(shards), ["w"]) == [*shards[1:10], *shards[10:], shards[0]]


def test_a_worker_whose_model_is_done_helps_with_another() -> None:
    queue = ShardQueue(shards_of(measurement("a", num_examples=100), measurement("b", num_examples=500)))
    assert queue.take("v").measurement.checkpoint.name == "b"  # type: ignore[union-attr]
    assert queue.take("w").measurement.checkpoint.name == "b"  # type: ignore[union-attr]
    assert queue.take("u").measurement.checkpoint.name == "a"  # type: ignore[union-attr]
    assert queue.take("u").measurement.checkpoint.name == "b"  # type: ignore[union-attr]


def test_a_shard_given_back_is_taken_next_and_not_claimed_again() -> None:
    claims = Answering({})
    queue = ShardQueue(shards_of(measurement("a")), claims=claims)
    shard = queue.take("v")
    assert shard is not None
    queue.give_back(shard)
    assert len(queue) == 3
    assert queue.take("w") is shard
    assert claims.asked[shard.key] == 1


def test_shards_of_other_runs_are_passed_by_and_counted_once_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "SECONDS_BETWEEN_LOOKS", 0.0)
    first, second, third = shards = shards_of(measurement("a"))
    answers = {first.key: [Claimed.TAKEN, Claimed.TAKEN, Claimed.DONE], second.key: [Claimed.DONE]}
    queue = ShardQueue(shards, claims=Answering(answers))
    assert queue.take("w") is third
    assert (len(queue), queue.num_elsewhere) == (1, 1)
    assert queue.take("w") is None
    assert len(queue) == 1
    assert queue.take("w") is None
    assert (len(queue), queue.num_elsewhere) == (0, 2)


def test_a_shard_whose_run_has_ended_without_a_record_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "SECONDS_BETWEEN_LOOKS", 0.0)
    (shard,) = shards_of(measurement("a", num_examples=100))
    queue = ShardQueue([shard], claims=Answering({shard.key: [Claimed.TAKEN, Claimed.TAKEN, Claimed.MINE]}))
    assert [queue.take("w") for _ in range(2)] == [None, shard]
    assert len(queue) == 0


def test_claims_of_other_runs_are_looked_at_once_a_second_at_most() -> None:
    (shard,) = shards_of(measurement("a", num_examples=100))
    claims = Answering({shard.key: [Claimed.TAKEN]})
    queue = ShardQueue([shard], claims=claims)
    for _ in range(1000):
        assert queue.take("w") is None
    assert claims.asked[shard.key] <= 5


def test_measurements_are_listed_once_also_after_their_shards_were_taken() -> None:
    measured = [measurement("a"), measurement("b")]
    queue = ShardQueue(shards_of(*measured))
    taken(queue, ["w"])
    assert queue.measurements == measured


def test_a_later_queue_is_used_when_the_earlier_ones_have_nothing_to_take() -> None:
    first, later = shards_of(measurement("a", num_examples=200)), shards_of(measurement("b", num_examples=200))
    work = InTurn([ShardQueue(first), ShardQueue(later)])
    assert (len(work), len(work.measurements)) == (4, 2)
    shards = [work.take("w") for _ in range(3)]
    assert shards == [*first, later[0]]
    assert shards[1] is not None
    work.give_back(shards[1])
    assert [work.take("w"), work.take("w"), work.take("w")] == [first[1], later[1], None]


def test_shards_of_others_are_taken_while_own_ones_are_claimed_by_another_run() -> None:
    own, others = shards_of(measurement("a", num_examples=100)), shards_of(measurement("b", num_examples=100))
    claims = Answering({own[0].key: [Claimed.TAKEN]})
    work = InTurn([ShardQueue(own, claims=claims), ShardQueue(others, claims=claims)])
    assert work.take("w") is others[0]
    assert (work.take("w"), len(work), work.num_elsewhere) == (None, 1, 0)


@given(
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=4),
    count=st.integers(1, 9),
    order=st.randoms(use_true_random=False),
)
def test_parts_are_disjoint_complete_even_and_of_no_order(sizes: list[int], count: int, order: random.Random) -> None:
    shards = shards_of(*(measurement("m", f"c{number}", size) for number, size in enumerate(sizes)))
    parts = [part_of(shards, number, count) for number in range(1, count + 1)]
    assert sorted(shard.key for part in parts for shard in part) == sorted(shard.key for shard in shards)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    # Of each measurement too, up to one shard.
    for name in {shard.measurement.condition.name for shard in shards}:
        counts = [sum(shard.measurement.condition.name == name for shard in part) for part in parts]
        assert max(counts) - min(counts) <= 1
    # Suites that share conditions plan shards twice; the plan's order of measurements is that of the suites.
    again = [*shards, *order.sample(shards, len(shards))]
    assert part_of(again, 1, count) == parts[0]


def models_taken(a: int, b: int, dear: float, workers: str) -> str:
    """Return the models whose shards workers take in turn: of ``a`` shards at 1, of ``b`` at ``dear``."""
    costs = {"c": 1.0, "dear": dear}
    shards = shards_of(measurement("a", num_examples=100 * a), measurement("b", "dear", num_examples=100 * b))
    queue = ShardQueue(shards, lambda shard: costs[shard.measurement.condition.name])
    found = [queue.take(worker) for worker in workers]
    return "".join(shard.measurement.checkpoint.name for shard in found if shard is not None)


def test_near_the_end_a_worker_takes_the_shard_that_would_be_the_last_to_end() -> None:
    # Once v has one, 14 are left for two workers, and b's other shard alone takes 8.
    assert models_taken(6, 2, 8.0, "vwvwvwww") == "bbaaaaaa"
    # With 6 more left, both models last as long as all workers.
    assert models_taken(12, 2, 8.0, "vwv") == "bab"
    # A worker that has a model leaves it as well.
    assert models_taken(16, 3, 8.0, "vw" + 8 * "w" + "vw") == "ba" + 8 * "a" + "bb"


def test_a_worker_keeps_its_model_where_another_s_shards_are_not_much_longer() -> None:
    assert models_taken(4, 4, 1.9, "vwvvwwww") == "babbaaab"


def test_a_single_worker_finishes_a_model_before_the_next() -> None:
    assert models_taken(3, 3, 8.0, "vvvvvv") == "bbbaaa"


def test_shards_that_two_suites_share_are_measured_once() -> None:
    shards = shards_of(measurement("a"))
    assert missing([*shards, *shards], ()) == shards


NUM_MODELS, NUM_CONDITIONS = 5, 2


def counted(calls: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counting(*arguments: Any) -> Any:
        calls[name] += 1
        return function(*arguments)

    return counting


def calls_for(num_shards: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the calls that it takes to plan, compare with a store, and hand out so many shards."""
    calls: Counter[str] = Counter()
    size = num_shards // (NUM_MODELS * NUM_CONDITIONS)
    data = DatasetIdentity(name="digits", fingerprint="f", num_examples=10 * size)
    measurements = [
        replace(
            MEASUREMENT,
            checkpoint=replace(MEASUREMENT.checkpoint, name=f"m{model}"),
            condition=replace(MEASUREMENT.condition, name=f"c{number}", num_predictions=1 + number),
            weights_digest=str(model),
            dataset=data,
            batch_size=10,
        )
        for model in range(NUM_MODELS)
        for number in range(NUM_CONDITIONS)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(shard_module, "key_of", counted(calls, "identities", shard_module.key_of))
        patch.setattr(shard_module, "shard_key", counted(calls, "keys", shard_module.shard_key))
        cost: Callable[[Shard], float] = counted(calls, "costs", lambda shard: float(shard.stop - shard.start))
        shards = list(into_shards(measurements, 1))
        queue = ShardQueue(missing([*shards, *shards], ()), cost)
        for number in range(len(shards)):
            taken = queue.take(number % 64)
            assert taken is not None
            assert taken.key
    assert len(shards) == num_shards
    assert len(queue) == 0
    return calls


def test_twice_the_shards_take_twice_the_work_and_each_key_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    once, twice = (calls_for(count, monkeypatch) for count in (10_000, 20_000))
    for calls, count in ((once, 10_000), (twice, 20_000)):
        assert calls["identities"] == NUM_MODELS * NUM_CONDITIONS
        assert calls["keys"] == count
    assert 1.9 < twice["costs"] / once["costs"] < 2.1
    assert twice["costs"] <= 4 * 20_000
