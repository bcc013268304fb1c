"""Time left of a run: whenever it is said, it is within a factor of three of the truth."""

from __future__ import annotations

import heapq
import tarfile
from dataclasses import replace
from fractions import Fraction
from itertools import count
from math import exp
from random import Random
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT

from examples import CHECKPOINT, MEASUREMENT, PGD, PROVENANCE, failure_of, record_of
from robench.attacks.autoattack import AutoAttack
from robench.attacks.square import Square
from robench.core.suite import Condition
from robench.declare import find_suite
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of
from robench.perturbations.clean import Clean
from robench.scheduling.measure import plan
from robench.scheduling.pace import weighted_passes
from robench.scheduling.queue import ShardQueue
from robench.scheduling.time_left import TimeLeft
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from robench.core.shard import Shard

FACTOR = 3.0


class Course:
    """Course of a simulated run: the second of each result, what was then said, and the second of the last one."""

    def __init__(
        self,
        shards: Sequence[Shard],
        seconds: Callable[[Shard], float],
        num_workers: int,
        per_pass: Mapping[str, float] | None = None,
    ) -> None:
        queue = ShardQueue(shards, _expected_cost, is_alone=num_workers == 1)
        self.now, order = 0.0, count()
        left = TimeLeft(shards, num_workers, per_pass, clock=lambda: self.now)
        ends: list[tuple[float, int, int, Shard]] = []

        def begin(worker: int) -> None:
            if (shard := queue.take(worker)) is not None:
                left.begins(worker, shard)
                heapq.heappush(ends, (self.now + seconds(shard), next(order), worker, shard))

        for worker in range(num_workers):
            begin(worker)
        self.said: list[tuple[float, float]] = []
        while ends:
            self.now, _, worker, shard = heapq.heappop(ends)
            result = record_of(shard.header)
            left.ends(replace(result, provenance=replace(PROVENANCE, seconds=seconds(shard))))
            if (found := left.seconds()) is not None:
                self.said.append((self.now, found))
            begin(worker)
        self.end = self.now

    @property
    def wrong(self) -> list[tuple[float, float, float]]:
        """Return what was said, beyond the factor, with its second and the truth."""
        found = [(now, said, self.end - now) for now, said in self.said]
        # An estimate is at most a second old, and a shard may end within it.
        return [each for each in found if not (each[2] - 1) / FACTOR <= each[1] <= FACTOR * (each[2] + 1)]


def _expected_cost(shard: Shard) -> float:
    return (shard.stop - shard.start) * (weighted_passes(shard.measurement.condition) or 1.0)


def shards_of(conditions: Sequence[Condition], models: Sequence[str], batch_size: int = 100) -> list[Shard]:
    measurements = [
        replace(
            MEASUREMENT,
            checkpoint=replace(CHECKPOINT, name=name),
            condition=condition,
            weights_digest=f"{number:064x}",
            batch_size=AUDIT_EXAMPLES if condition.num_examples == AUDIT_EXAMPLES else batch_size,
        )
        for number, name in enumerate(models)
        for condition in conditions
    ]
    return list(plan(measurements, 1))


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


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_of_the_demo_it_is_said_within_a_factor_of_three(
    demo: dict[tuple[str, str, int], float], num_workers: int
) -> None:
    suite = find_suite("digits-adv")
    models = list(dict.fromkeys(model for model, _, _ in demo))
    shards = shards_of([*audits_of(suite), *suite.conditions], models)
    assert len(shards) == len(demo) == 111

    def seconds(shard: Shard) -> float:
        return demo[shard.measurement.checkpoint.name, shard.measurement.condition.name, shard.start]

    assert Course(shards, seconds, num_workers).wrong == []
    course = Course(shards, seconds, num_workers, dict.fromkeys(models, 0.001))
    assert course.wrong == []
    assert course.said[0][0] < 0.8 * course.end


SEARCHES = ("square", "autoattack")
ATTACKS = {
    "clean": Clean(),
    "pgd": PGD,
    "pgd-4": replace(PGD, epsilon=Fraction(4, 255)),
    "square": Square(epsilon=Fraction(8, 255), num_queries=1000, p_init=0.8),
    "autoattack": AutoAttack(epsilon=Fraction(8, 255), variant="standard"),
}


def mixed_course(seed: int, num_workers: int) -> Course:
    """Run some models under some conditions.

    Models differ by a factor of 30 in the seconds of a pass. A search ends early, each after its own part of its most
    passes on each model, and shards of one measurement differ by a fifth. Timed on few rows, a pass seems to take
    between a third of its time and all of it.
    """
    random = Random(seed)
    models = [f"model-{number}" for number in range(random.choice([1, 2, 5]))]
    names = random.sample(list(ATTACKS), random.choice([2, 3, 5]))
    dataset = MEASUREMENT.condition.dataset
    conditions = [Condition(name=each, dataset=dataset, perturbation=ATTACKS[each]) for each in names]
    of_pass = {model: 0.002 * 30 ** random.random() for model in models}
    part = {(model, each): 0.02 ** random.random() if each in SEARCHES else 1.0 for model in models for each in names}
    timed = {model: of_pass[model] * random.uniform(0.3, 1) for model in models}

    def seconds(shard: Shard) -> float:
        model, condition = shard.measurement.checkpoint.name, shard.measurement.condition
        noise = exp(Random(f"{seed} {shard.key}").gauss(0, 0.2))
        return of_pass[model] * _expected_cost(shard) * part[model, condition.name] * noise

    return Course(shards_of(conditions, models), seconds, num_workers, random.choice([{}, timed]))


@pytest.mark.parametrize("num_workers", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 7))])
def test_of_mixed_work_it_is_said_within_a_factor_of_three(num_workers: int) -> None:
    courses = [mixed_course(seed, num_workers) for seed in range(25)]
    assert [each.wrong for each in courses] == [[]] * len(courses)
    assert sum(bool(each.said) for each in courses) >= 12


def test_a_failed_shard_says_nothing_of_the_others() -> None:
    (shard, *_), now = (
        shards_of([Condition(name="clean", dataset=MEASUREMENT.condition.dataset, perturbation=Clean())], ["m"]),
        0.0,
    )
    left = TimeLeft([shard, *_], 1, {"m": 0.1}, clock=lambda: now)
    left.begins(0, shard)
    left.ends(failure_of(shard.header, "no luck"))
    assert left.seconds() is None
