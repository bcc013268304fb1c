"""Each way in which a worker process, or the process of the run, can end: it costs its shard, and nothing stays."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from misbehaving_workers import BAD, SHARDS, Misbehaving, left_of

from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.executors import ProcessExecutor, worker_process
from robench.executors.processes import MAX_DEATHS
from robench.scheduling import ShardQueue


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("exit_0", "ended itself with exit code 0, 3 times: a model must not end its process, as os._exit does"),
        ("exit_3", "ended itself with exit code 3, 3 times: a model must not end its process, as os._exit does"),
        ("abort", "crashed (SIGABRT), 3 times: native code of the model, or of a library that it uses, failed"),
        ("sigkill", "was killed (SIGKILL), 3 times: memory may be short: try fewer --workers"),
        ("sigterm", "was ended from outside (SIGTERM), 3 times: run it again"),
        ("another_shard", f"answered for another shard than the one it was given ({SHARDS[0].header.title}), 3 times"),
        ("no_record", "answered for another shard than the one it was given (a str), 3 times"),
        ("garbage", "wrote something other than its result into the pipe to the run, 3 times"),
        ("close_descriptors", "closed its pipe to the run, 3 times"),
    ],
)
def test_the_shard_is_given_up_by_name_and_the_rest_is_measured(tmp_path: Path, harm: str, error: str) -> None:
    results = {
        each.shard.start: each for each in ProcessExecutor([Misbehaving(tmp_path, harm)]).execute(ShardQueue(SHARDS))
    }
    failure = results.pop(BAD)
    assert isinstance(failure, Failure)
    assert failure.error.startswith(f"the worker process {error}")
    assert len(results) == len(SHARDS) - 1
    assert all(isinstance(result, Record) for result in results.values())
    assert len(list(tmp_path.glob("attempt-*"))) == MAX_DEATHS
    assert left_of(tmp_path, "worker") == []


def test_a_stopped_worker_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "SECONDS_BETWEEN_BEATS", 0.1)
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 1.5)
    executor = ProcessExecutor([Misbehaving(tmp_path, "stop_itself")])
    (failure,) = [each for each in executor.execute(ShardQueue(SHARDS)) if isinstance(each, Failure)]
    assert "gave no sign of life for 1.5 s, 3 times" in failure.error
    assert left_of(tmp_path, "worker") == []


def test_a_shard_that_holds_the_interpreter_over_its_time_is_given_up(tmp_path: Path) -> None:
    executor = ProcessExecutor([Misbehaving(tmp_path, "hang_in_c")], shard_timeout=1.5)
    failures = [each for each in executor.execute(ShardQueue(SHARDS)) if isinstance(each, Failure)]
    assert [failure.shard.start for failure in failures] == [BAD]
    assert failures[0].error.startswith("the worker process took longer than 1.5 s, 3 times: the model may hang")
    assert left_of(tmp_path, "worker") == []


@dataclass(frozen=True)
class EndingAlways:
    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        os._exit(0)


def test_however_many_shards_end_their_workers_the_run_goes_on() -> None:
    results = list(ProcessExecutor([EndingAlways()]).execute(ShardQueue(SHARDS[:4])))
    assert [result.shard.start for result in results] == [0, 100, 200, 300]
    assert all(isinstance(result, Failure) for result in results)


PARENT = """
import sys
from pathlib import Path
from misbehaving_workers import *
from robench.executors import ProcessExecutor, worker_process
from robench.scheduling import ShardQueue
if __name__ == "__main__":
    # nohup has those that it starts ignore it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    list(ProcessExecutor([Misbehaving(Path(sys.argv[1]), "hang")] * 2).execute(ShardQueue(SHARDS[2:3] * 2)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_workers_and_what_they_forked_end_when_their_parent_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "script.py").write_text(PARENT)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path],
        env=os.environ | {"PYTHONPATH": path},
        # Not read to the end, which would wait for those that should be gone.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while len(list(tmp_path.glob("fork-*"))) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    parent.send_signal(number)
    parent.wait()
    assert left_of(tmp_path, "worker") == left_of(tmp_path, "fork") == []
