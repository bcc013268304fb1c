"""What every executor promises, over the whole registry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from examples import MEASUREMENT, failure_of, record_of
from robench.core.protocols import Executor
from robench.core.records import Failure, Record
from robench.core.shard import DatasetIdentity
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.executors import EXECUTORS, Crew, ExecutorBase
from robench.scheduling import ShardQueue, plan

if TYPE_CHECKING:
    from robench.core.shard import Measurement, Shard


def measurement(model: str) -> Measurement:
    condition = Condition(name="c", dataset=DIGITS, perturbation=MEASUREMENT.condition.perturbation)
    data = DatasetIdentity(name="digits", fingerprint="f", num_examples=600)
    checkpoint = replace(MEASUREMENT.checkpoint, name=model)
    return replace(MEASUREMENT, checkpoint=checkpoint, condition=condition, dataset=data, weights_digest=model * 4)


SHARDS = list(plan([measurement("a"), measurement("b")], batches_per_shard=1))


class Recorder:
    """Evaluator whose records name its device; every shard that starts at 300 fails."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, shard: Shard) -> Record | Failure:
        if shard.start == 300:
            return failure_of(shard.header, self.device)
        record = record_of(shard.header)
        return replace(record, provenance=replace(record.provenance, device=self.device))


# Started once for all tests of a kind: workers take seconds to start.
@pytest.fixture(scope="module", params=sorted(EXECUTORS.builtin))
def declared(request: pytest.FixtureRequest) -> ExecutorBase:
    return EXECUTORS[request.param]()


def executor_of(declared: ExecutorBase, num_workers: int = 2) -> Executor:
    count = 1 if declared.is_in_process else num_workers
    devices = () if declared.is_elsewhere else ("cpu",) * count
    return declared.executor(Crew(make=Recorder, devices=devices, device="cpu", num_workers=count))


def keys_of(results: Any) -> list[str]:
    return sorted(result.shard.key for result in results)


def test_kinds_are_the_names_of_the_registry() -> None:
    assert {name: declared.kind for name, declared in EXECUTORS.builtin.items()} == {name: name for name in EXECUTORS}


def test_every_shard_has_one_result_and_failures_stop_nothing(declared: ExecutorBase) -> None:
    results = list(executor_of(declared).execute(ShardQueue(SHARDS)))
    assert keys_of(results) == keys_of(record_of(shard.header) for shard in SHARDS)
    assert {result.shard.start for result in results if isinstance(result, Failure)} == {300}
    assert sum(isinstance(result, Record) for result in results) == 10
    devices = {result.provenance.device for result in results if isinstance(result, Record)}
    assert devices == {"cpu"}


def test_without_work_nothing_is_started(declared: ExecutorBase) -> None:
    def refuse(device: str) -> Any:
        raise AssertionError("a worker was started")

    crew = Crew(make=refuse, devices=(), device="cpu", num_workers=1)
    if not declared.is_in_process:
        assert list(declared.executor(crew).execute(ShardQueue([]))) == []
    assert list(executor_of(declared).execute(ShardQueue([]))) == []


def test_draining_begins_no_further_shard_and_loses_none(declared: ExecutorBase) -> None:
    executor, work = executor_of(declared), ShardQueue(SHARDS)
    results = executor.execute(work)
    found = [next(results)]
    executor.drain()
    found += list(results)
    assert len(found) + len(work) == len(SHARDS)
    assert len(set(keys_of(found))) == len(found) <= 5


def test_leaving_early_is_possible(declared: ExecutorBase) -> None:
    results = executor_of(declared).execute(ShardQueue(SHARDS))
    next(results)
    results.close()  # type: ignore[attr-defined]


def test_the_number_of_workers_is_known(declared: ExecutorBase) -> None:
    assert executor_of(declared, 2).num_workers == (0 if declared.is_in_process else 2)
