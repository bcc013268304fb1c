"""What every executor promises, over the whole registry; the promises are ``robench.testing.executor``'s."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ray_workers import local_ray

from robench.core.errors import UsageError
from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.executors import EXECUTORS, IN_PROCESS, ExecutorBase, Ray, WorkerPool
from robench.executors.ray_cluster import Cluster, Wanted
from robench.executors.serial import SerialExecutor
from robench.executors.stub import Stub
from robench.runs import choose_workers
from robench.scheduling import ShardQueue
from robench.testing import check_executor
from robench.testing.executor import EXECUTOR_CHECKS, shards_for_tests
from robench.testing.expectations import DECLARATION_CHECKS, run_checks

LIBRARIES = {"ray": "ray"}
KINDS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LIBRARIES else []) for name in sorted(EXECUTORS.builtin)
]


@pytest.fixture(scope="module", params=KINDS)
def declared(request: pytest.FixtureRequest) -> Iterator[ExecutorBase]:
    library = LIBRARIES.get(request.param)
    if library is not None and find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    with ExitStack() as stack:
        if library is not None:
            # Started once for all tests: it takes seconds.
            stack.enter_context(local_ray(num_cpus=2))
        yield EXECUTORS[request.param]()


def test_kinds_are_the_names_of_the_registry() -> None:
    assert {name: declared.kind for name, declared in EXECUTORS.builtin.items()} == {name: name for name in EXECUTORS}


@pytest.mark.parametrize("kind", sorted(EXECUTORS.builtin))
@pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
def test_declarations(check: Callable[..., None], kind: str) -> None:
    declaration = EXECUTORS[kind]()
    check(declaration)


@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
def test_executors(check: Callable[..., None], declared: ExecutorBase) -> None:
    check(declared)


def test_an_honest_executor_passes() -> None:
    check_executor(IN_PROCESS)


@dataclass(frozen=True)
class Announced:
    """Evaluator whose records say, in place of the device, which shard was announced to follow."""

    device: str

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        record = Stub(self.device, failing_start=None)(shard)
        announced = "" if following is None else following.key
        return replace(record, provenance=replace(record.provenance, device=announced))


def test_workers_are_told_which_shard_follows(declared: ExecutorBase) -> None:
    devices = () if declared.is_elsewhere else ("cpu",)
    executor = declared.executor(WorkerPool(make=Announced, devices=devices, device="cpu", num_workers=1))
    # One worker, and one model at a time: 6 shards of each.
    results = list(executor.execute(ShardQueue(shards_for_tests())))
    keys = [result.shard.key for result in results]
    assert [result.provenance.device for result in results] == [*keys[1:6], "", *keys[7:], ""]


class Planted(SerialExecutor):
    """Executor that breaks one promise."""

    def __init__(self, harm: str, pool: WorkerPool) -> None:
        super().__init__(pool.make("cpu" if harm != "another_device" else "cuda:7"))
        self.harm = harm

    @property
    def num_workers(self) -> int:
        return 3 if self.harm == "miscounts" else 0

    def drain(self) -> None:
        if self.harm != "goes_on":
            super().drain()

    def execute(self, work: Any) -> Iterator[Any]:
        if self.harm == "invents" and not len(work):
            yield Stub("cpu")(shards_for_tests()[0])
        if self.harm == "forgets" and len(work):
            work.take(self)
        if self.harm == "loses_patience" and len(work) and (first := work.take(self)) is None:
            return
        elif self.harm == "loses_patience" and len(work):
            yield self._evaluator(first)
        for result in super().execute(work):
            yield result
            if self.harm == "repeats":
                yield result
            if self.harm == "stops" and type(result).__name__ == "Failure":
                return


def planted(declaration: PlantedDeclaration, pool: WorkerPool) -> Planted:
    return Planted(declaration.harm, pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedDeclaration(ExecutorBase):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = "test_executors_contract:planted"
    is_in_process: ClassVar[bool] = True
    harm: str = ""


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        ("invents", "yields 1 results without any shard"),
        ("forgets", "has no result of 1 shards"),
        ("repeats", "12 with several"),
        ("stops", "has no result of"),
        ("another_device", "makes evaluators for cuda:7; expected cpu"),
        ("goes_on", "has 12 results and leaves 0 of 12 shards after it was drained; expected at most 5"),
        ("loses_patience", "has no result of 2 shards"),
        ("miscounts", "has num_workers 3; expected 0"),
    ],
)
def test_a_planted_mistake_is_found(harm: str, found: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run_checks("executor 'planted'", EXECUTOR_CHECKS, PlantedDeclaration(harm=harm))
    assert str(caught.value).startswith("executor 'planted' ")
    assert found in str(caught.value)


def test_no_executor_at_all_is_refused() -> None:
    with pytest.raises(AssertionError, match="is not an executor; expected an instance of robench's"):
        check_executor(SerialExecutor(Stub("cpu")))  # type: ignore[arg-type]


@pytest.mark.parametrize(("cpus_per_worker", "wanted"), [(0.5, 1), (1.0, 1), (6.0, 6)])
def test_workers_of_ray_decode_on_their_own_cores(cpus_per_worker: float, wanted: int) -> None:
    workers = choose_workers("auto", None, Ray(cpus_per_worker=cpus_per_worker))
    assert (workers.devices, workers.decode_workers) == ((), wanted)


def test_one_gpu_of_a_ray_cluster_cannot_be_chosen() -> None:
    with pytest.raises(UsageError, match=r"device 'cuda:1' cannot be chosen on a Ray cluster.*use auto, cpu or cuda"):
        Cluster(EXECUTORS["ray"](), "cuda:1", None)  # type: ignore[arg-type]


def test_without_ray_its_executor_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    executor = EXECUTORS["ray"]().executor(WorkerPool(make=Stub, device="cpu"))
    with pytest.raises(UsageError, match=r"needs Ray .*not installed: pip install --editable '\S+\[ray\]'$"):
        _ = executor.num_workers


@pytest.mark.parametrize(
    ("cpus", "gpus", "machine", "places"),
    [
        (1, 0, {"CPU": 16.0, "GPU": 2.0}, 16),
        (3, 0, {"CPU": 16.0}, 5),
        (0.2, 0, {"CPU": 1.0}, 5),
        (1, 1, {"CPU": 16.0, "GPU": 2.0}, 2),
        (1, 0.4, {"CPU": 16.0, "GPU": 2.0}, 4),
        (1, 0.1, {"CPU": 16.0, "GPU": 1.0}, 10),
        (1, 2, {"CPU": 16.0, "GPU": 5.0}, 2),
        (4, 0.5, {"CPU": 10.0, "GPU": 8.0}, 2),
        (1, 1, {"CPU": 16.0}, 0),
        (1, 0, {"memory": 1e9}, 0),
    ],
)
def test_a_machine_has_room_for_a_known_number_of_workers(
    cpus: float, gpus: float, machine: dict[str, float], places: int
) -> None:
    assert Wanted(cpus, gpus).places(machine) == places


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"gpus_per_worker": 1.5}, "gpus_per_worker must be at most 1 or a whole number, got 1.5"),
        ({"gpus_per_worker": 0.0}, "gpus_per_worker must be above 0"),
        ({"address": " "}, "address must be auto, host:port or ray://host:port"),
    ],
)
def test_resources_that_ray_cannot_assign_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        EXECUTORS["ray"](**fields)


def test_a_connection_leaves_environment_and_signal_handlers_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeRay:
        """Ray as far as a connection goes, with its habit of taking signals over."""

        _private = SimpleNamespace(worker=SimpleNamespace(print_to_stdstream=print))
        __name__ = "a-fake-ray"

        def __init__(self) -> None:
            self.settings: dict[str, Any] = {}
            self.environment = ""

        def is_initialized(self) -> bool:
            return False

        def init(self, **settings: Any) -> None:
            self.settings, self.environment = settings, os.environ["RAY_USAGE_STATS_ENABLED"]
            assert self._private.worker.print_to_stdstream("a lost machine") is None
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        def shutdown(self) -> None:
            self.settings = {}

    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    ray, before = FakeRay(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setitem(sys.modules, "ray", ray)
    cluster = Cluster(Ray(cpus_per_worker=2), "cpu", 40)
    assert cluster.ray is ray
    assert ray.settings["num_cpus"] == 80
    assert (ray.settings["address"], ray.settings["log_to_driver"], ray.environment) == ("local", False, "0")
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ
    assert signal.getsignal(signal.SIGTERM) is before
    cluster.close()
    assert ray.settings == {}
    assert ray._private.worker.print_to_stdstream is print
