"""Evaluators for actors, which import them from here, and a Ray of one machine for tests."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from examples import MEASUREMENT, outcome_columns, outcome_of, record_of
from robench.core.records import Failure, Record
from robench.core.shard import DatasetIdentity, Shard, into_shards
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.executors.worker import THREAD_VARIABLES

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make setup")
SMALL: dict[str, Any] = {"object_store_memory": 80_000_000, "include_dashboard": False}


def shards_of(num_shards: int) -> list[Shard]:
    condition = Condition(name="c", dataset=DIGITS, perturbation=MEASUREMENT.condition.perturbation)
    data = DatasetIdentity(name="digits", fingerprint="f", num_examples=100 * num_shards)
    return list(into_shards([replace(MEASUREMENT, condition=condition, dataset=data)], batches_per_shard=1))


@contextmanager
def local_ray(**resources: float) -> Iterator[Any]:
    """Start Ray on this machine, as the owner of a script may have done before robench is called."""
    import ray

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray.init(address="local", log_to_driver=False, logging_level=logging.CRITICAL, **SMALL, **resources)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def ray_cluster(num_nodes: int, **resources: float) -> Iterator[Any]:
    """Start a cluster of processes of this machine, a head without CPUs and nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    # One mode for all connections of a process: otherwise the first Ray on this machine sets another for later ones.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    head = {"num_cpus": 0, "object_store_memory": SMALL["object_store_memory"], "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(num_nodes):
            add_node(cluster, **resources)
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Any, **resources: float) -> Any:
    settings = {"num_cpus": 1, "object_store_memory": SMALL["object_store_memory"], **resources}
    return cluster.add_node(**settings)


@dataclass(frozen=True)
class Marking:
    """Evaluator that marks each execution by a file with the number of its process, and takes a moment for it."""

    folder: Path
    device: str
    seconds: float = 0.05

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        (self.folder / f"{shard.start}-{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(self.seconds)
        record = record_of(shard.header)
        return replace(record, provenance=replace(record.provenance, device=self.device))


@dataclass(frozen=True)
class Misbehaving:
    """Evaluator that ends or mistreats its process at the shard that starts at 100."""

    harm: str

    def __call__(self, shard: Shard, following: Shard | None = None) -> Any:
        if shard.start != 100:
            return record_of(shard.header)
        match self.harm:
            case "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(3600)
            case "raise":
                raise OSError("the disk of this machine is full")
        return "no record"


@dataclass(frozen=True)
class ReportingThreads:
    """Evaluator whose outcomes are named after the numbers of threads, and the GPUs that it sees."""

    device: str

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        seen = [os.environ.get(name, "") for name in (*THREAD_VARIABLES, "CUDA_VISIBLE_DEVICES")]
        record = replace(record_of(shard.header), outcomes=outcome_columns(outcome_of(each) for each in seen))
        return replace(record, provenance=replace(record.provenance, device=self.device))
