"""Growth of the scheduler's work with the number of shards, counted in calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from examples import MEASUREMENT
from robench.core import shard as module
from robench.core.shard import DatasetIdentity, Shard, into_shards
from robench.runs.prepare import missing
from robench.scheduling import ShardQueue
from robench.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

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
        patch.setattr(module, "key_of", counted(calls, "identities", module.key_of))
        patch.setattr(module, "shard_key", counted(calls, "keys", module.shard_key))
        cost: Callable[[Shard], float] = counted(calls, "costs", lambda shard: float(shard.stop - shard.start))
        shards = list(into_shards(measurements, 1))
        queue = ShardQueue(missing([*shards, *shards], MemoryStore()), cost)
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
