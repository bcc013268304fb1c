"""Shards and evaluators of tests of executors; spawned workers import this module, so that it is light."""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from examples import MEASUREMENT, outcome_columns, outcome_of, record_of
from robench.core.records import Failure, Record
from robench.core.shard import DatasetIdentity, Shard, into_shards
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.executors.worker import THREAD_VARIABLES


def measurement(name: str, num_examples: int = 600) -> Any:
    condition = Condition(name=name, dataset=DIGITS, perturbation=MEASUREMENT.condition.perturbation)
    data = DatasetIdentity(name="digits", fingerprint=name, num_examples=num_examples)
    return replace(MEASUREMENT, condition=condition, dataset=data)


SHARDS = list(into_shards([measurement("a"), measurement("b")], batches_per_shard=1))


def recorded(shard: Shard, following: Shard | None = None) -> Record:
    return record_of(shard.header)


@dataclass(frozen=True)
class Recording:
    """An evaluator that measures nothing."""

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        return recorded(shard)


@dataclass(frozen=True)
class ReportingThreads:
    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        outcomes = outcome_columns(outcome_of(os.environ.get(name, "")) for name in THREAD_VARIABLES)
        return replace(recorded(shard), outcomes=outcomes)


@dataclass(frozen=True)
class DyingOnce:
    """Kills its process the first time it meets the shard that starts at ``start``."""

    folder: Path
    start: int

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        marker = self.folder / shard.key
        if shard.start == self.start and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return recorded(shard)


@dataclass(frozen=True)
class DyingAlways:
    start: int

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        if shard.start == self.start and shard.measurement.condition.name == "a":
            os.kill(os.getpid(), signal.SIGKILL)
        return recorded(shard)


@dataclass(frozen=True)
class Broken:
    """Cannot even be unpickled in the worker."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (7,)

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        raise AssertionError


@dataclass(frozen=True)
class Slow:
    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        time.sleep(0.2)
        return recorded(shard)


def keys_of(results: Any) -> list[str]:
    return sorted(result.shard.key for result in results)
