"""The Ray executor on clusters of this machine: lost machines, killed actors, shares of GPUs, and whole runs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Robench
from killed_runs import begin, model_options, sorted_outcomes, wait_for_records
from ray_workers import Marking, Misbehaving, ReportingThreads, add_node, local_ray, needs_ray, ray_cluster, shards_of
from snippets import snippets

from robench.core.errors import RobenchError, UsageError
from robench.core.records import Failure, Record
from robench.executors import WorkerPool
from robench.executors.base import MAX_DEATHS
from robench.executors.ray import Ray
from robench.executors.ray_impl import RayExecutor
from robench.scheduling import ShardQueue

pytestmark = needs_ray
SHARDS = shards_of(200)


def executor_of(make: Any, address: str | None = None, *, device: str = "cpu", **settings: Any) -> RayExecutor:
    fields = {name: settings.pop(name) for name in ("gpus_per_worker", "start_timeout") if name in settings}
    pool = WorkerPool(make=make, device=device, **settings)
    return RayExecutor(Ray(address=address, **fields), pool)


def executions_in(folder: Path) -> Counter[int]:
    return Counter(int(path.name.partition("-")[0]) for path in folder.iterdir())


def check_whole(results: list[Record | Failure]) -> None:
    assert all(isinstance(result, Record) for result in results)
    assert sorted(result.shard.key for result in results) == sorted(shard.key for shard in SHARDS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(num_nodes=2) as made:
        yield made


def test_machines_lost_three_times_cost_at_most_a_shard_each(tmp_path: Path) -> None:
    with ray_cluster(num_nodes=2) as cluster:
        nodes = list(cluster.worker_nodes)
        results: list[Record | Failure] = []
        executor = executor_of(partial(Marking, tmp_path, seconds=0.2), cluster.address)
        assert executor.num_workers == 2
        for result in executor.execute(ShardQueue(SHARDS)):
            results.append(result)
            if len(results) in (40, 80, 120):
                cluster.remove_node(nodes.pop(0), allow_graceful=False)
                nodes.append(add_node(cluster))
    check_whole(results)
    executions = executions_in(tmp_path)
    assert len(SHARDS) <= sum(executions.values()) <= len(SHARDS) + 3


def test_the_rest_of_the_cluster_goes_on_without_a_machine_and_says_nothing(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with ray_cluster(num_nodes=2) as cluster:
        results: list[Record | Failure] = []
        capfd.readouterr()
        for result in executor_of(partial(Marking, tmp_path), cluster.address).execute(ShardQueue(SHARDS)):
            results.append(result)
            if len(results) == 50:
                cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
        assert capfd.readouterr() == ("", "")
    check_whole(results)
    assert sum(executions_in(tmp_path).values()) <= len(SHARDS) + 1


def test_killed_actors_cost_at_most_a_shard_each(cluster: Any, tmp_path: Path) -> None:
    results: list[Record | Failure] = []
    killed: set[int] = set()
    for result in executor_of(partial(Marking, tmp_path), cluster.address).execute(ShardQueue(SHARDS)):
        results.append(result)
        if len(results) in (30, 60, 90, 120, 150):
            latest = max(tmp_path.iterdir(), key=lambda path: int(path.name.split("-")[2]))
            killed.add(pid := int(latest.name.split("-")[1]))
            os.kill(pid, signal.SIGKILL)
    check_whole(results)
    executions = executions_in(tmp_path)
    assert len(killed) == 5
    assert sum(executions.values()) <= len(SHARDS) + len(killed)


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("sigkill", "ended unexpectedly, 3 times: native code of the model may have crashed, or memory was short"),
        ("exit", "ended unexpectedly, 3 times"),
        ("hang", "took longer than 1 s, 3 times: the model may hang; --shard-timeout gives it more time"),
        ("raise", "raised OSError: the disk of this machine is full, 3 times"),
        ("nonsense", "answered for another shard than the one it was given (a str), 3 times"),
    ],
)
def test_a_shard_that_ends_three_workers_is_a_failure_and_the_rest_is_measured(
    cluster: Any, harm: str, error: str
) -> None:
    executor = executor_of(lambda device: Misbehaving(harm), cluster.address, shard_timeout=1.0)
    results = {result.shard.start: result for result in executor.execute(ShardQueue(SHARDS[:6]))}
    failure = results.pop(100)
    assert isinstance(failure, Failure)
    assert failure.error.startswith(f"the worker {error}")
    assert sorted(results) == [0, 200, 300, 400, 500]
    assert all(isinstance(result, Record) for result in results.values())


def test_workers_that_cannot_start_end_the_run_with_the_reason(cluster: Any) -> None:
    def refuse(device: str) -> Any:
        raise OSError("no such file on this machine")

    with pytest.raises(RobenchError, match=r"in a row ended on the Ray cluster.*raised OSError: no such file on this"):
        list(executor_of(refuse, cluster.address).execute(ShardQueue(SHARDS)))


def test_draining_finishes_what_is_under_way(cluster: Any, tmp_path: Path) -> None:
    executor, work = executor_of(partial(Marking, tmp_path), cluster.address), ShardQueue(SHARDS)
    results = executor.execute(work)
    found = [next(results)]
    executor.drain()
    found += list(results)
    assert len(found) + len(work) == len(SHARDS)
    assert len(found) <= 4
    assert sum(executions_in(tmp_path).values()) == len(found)


def test_leaving_early_ends_the_actors_and_the_connection(cluster: Any, tmp_path: Path) -> None:
    import ray

    results = executor_of(partial(Marking, tmp_path, seconds=30.0), cluster.address, shard_timeout=2.0).execute(
        ShardQueue(SHARDS[:2])
    )
    while len(executions_in(tmp_path)) < 2:
        # Nothing can be yielded yet; a failure would be after three time limits.
        pids = advance_until_two_run(results, tmp_path)
    results.close()  # type: ignore[attr-defined]
    assert not ray.is_initialized()
    wait_until(lambda: not any(map(is_alive, pids)))


def advance_until_two_run(results: Iterator[Record | Failure], folder: Path) -> list[int]:
    next(results)
    return [int(path.name.split("-")[1]) for path in folder.iterdir()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.1)


def test_shards_that_other_runs_have_leased_are_waited_for(cluster: Any, tmp_path: Path) -> None:
    class Leased(ShardQueue):
        num_refused = 0

        def take(self, worker: Any) -> Any:
            if self.num_refused < 12:
                self.num_refused += 1
                return None
            return super().take(worker)

    work = Leased(SHARDS[:3])
    assert len(list(executor_of(partial(Marking, tmp_path), cluster.address).execute(work))) == 3
    assert work.num_refused == 12


def test_a_share_of_a_gpu_makes_several_workers_and_each_has_one_thread(tmp_path: Path) -> None:
    with local_ray(num_cpus=4, num_gpus=1):
        executor = executor_of(ReportingThreads, device="auto", gpus_per_worker=0.5)
        assert executor.num_workers == 2
        results = list(executor.execute(ShardQueue(SHARDS[:4])))
        assert {result.provenance.device for result in results} == {"cuda"}
        for result in results:
            assert isinstance(result, Record)
            assert [outcome.example_id for outcome in result.outcomes] == ["1", "1", "1", "0"]
        (alone,) = executor_of(ReportingThreads, device="cpu", num_workers=1).execute(ShardQueue(SHARDS[:1]))
        assert alone.provenance.device == "cpu"
        with pytest.raises(UsageError, match=r"room for 1 workers of 1 CPUs and 1 GPUs \(1 machine with 4 CPUs and 1"):
            list(executor_of(ReportingThreads, device="cuda", num_workers=2).execute(ShardQueue(SHARDS)))


def test_a_cluster_without_room_is_refused_and_a_busy_one_is_given_up(cluster: Any) -> None:
    with pytest.raises(
        UsageError, match=r"room for 0 workers of 1 CPUs and 1 GPUs.*the run needs a worker; start more"
    ):
        list(executor_of(ReportingThreads, cluster.address, device="cuda").execute(ShardQueue(SHARDS)))
    with pytest.raises(
        UsageError, match=r"room for 2 workers.*needs 3 workers; start more machines, or lower --workers"
    ):
        list(executor_of(ReportingThreads, cluster.address, num_workers=3).execute(ShardQueue(SHARDS)))
    import ray

    with local_ray(num_cpus=1):

        @ray.remote(num_cpus=1)
        class Occupant:
            def ready(self) -> bool:
                return True

        occupant = Occupant.remote()
        ray.get(occupant.ready.remote())
        with pytest.raises(RobenchError, match=r"no worker has been ready for 2 s.*others may use it"):
            list(executor_of(ReportingThreads, start_timeout=2.0).execute(ShardQueue(SHARDS)))
        assert ray.is_initialized()


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(UsageError, match=r"Ray at '127.0.0.1:1' cannot be used .*ray status"):
        list(executor_of(ReportingThreads, "127.0.0.1:1").execute(ShardQueue(SHARDS)))


def test_runs_on_ray_have_the_outcomes_of_the_serial_executor(
    robench: Robench, cluster: Any, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    models = model_options(("digits-vit", "digits-symvit"))
    options = ["--suite", small_suite(), *models, "--json"]
    serial = robench("run", *options, "--executor", "serial", "--results", tmp_path / "serial")
    on_ray = ["--executor", "ray", "--device", "cpu"]
    nodes = robench("run", *options, *on_ray, "--ray-address", cluster.address, "--results", tmp_path / "nodes")
    here = robench("run", *options, *on_ray, "--workers", 2, "--results", tmp_path / "here")
    assert [ended.code for ended in (serial, here, nodes)] == [0, 0, 0], here.stderr + nodes.stderr
    assert "starting 2 workers" in nodes.stderr
    assert (
        sorted_outcomes(tmp_path / "serial")
        == sorted_outcomes(tmp_path / "here")
        == sorted_outcomes(tmp_path / "nodes")
    )
    assert json.loads(here.stdout) == json.loads(nodes.stdout) == json.loads(serial.stdout)


def test_ctrl_c_finishes_what_is_under_way_and_leaves_no_process(
    small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"batch_size: 50": "batch_size: 2"})
    run = begin(suite, tmp_path / "results", "--executor", "ray", "--workers", "2", "--json")
    wait_for_records(tmp_path / "results")
    os.killpg(run.pid, signal.SIGINT)
    stdout, stderr = run.communicate()
    assert run.returncode == 130
    assert "Interrupted. What was measured is kept" in stderr
    assert "Traceback" not in stderr
    json.loads(stdout)
    wait_until(lambda: not processes_of(run.pid))


def processes_of(session: int) -> list[str]:
    """Return the processes of a session, which all descend from the run that leads it."""
    listed = subprocess.run(["ps", "-o", "args=", "-s", str(session)], capture_output=True, text=True, check=False)
    return listed.stdout.splitlines()


def test_the_first_command_of_the_page_runs(robench: Robench, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ray.md").read_text()
    (snippet,) = [each for each in snippets(page) if each.mark == "run by"]
    ((command, _),) = snippet.commands
    ended = robench(*command[1:], "--limit", 1, "--no-audit", "--results", tmp_path)
    assert ended.code == 0, ended.stderr
    assert "digits-vit" in ended.stdout
    assert sorted_outcomes(tmp_path)


SCRIPT = """
import robench
from robench.executors import Ray
report = robench.run({suite!r}, "digits-vit", results={results!r}, executor=Ray(), workers=1, device="cpu")
print(report.is_complete)
"""


def test_a_script_needs_no_guard(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(suite=str(small_suite()), results=str(tmp_path / "results")))
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


def test_a_shard_is_given_up_after_as_many_deaths_as_with_processes() -> None:
    assert MAX_DEATHS == 3
