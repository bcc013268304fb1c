"""Workers that die, hang, answer nonsense or leave processes behind cost their shard alone, and are named."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples import MEASUREMENT, record_of
from robench.core.records import Failure, Record
from robench.scheduling import Death, ProcessExecutor, answers_in_a_process, plan
from robench.scheduling.processes import MAX_DEATHS
from robench.scheduling.worker import LENGTH_SIZE, TOKEN_SIZE, GarbledError, Inbox

if TYPE_CHECKING:
    from robench.core.shard import Shard

SHARDS = list(plan([MEASUREMENT], batches_per_shard=1))
BAD = 200


def sleep_in_a_fork(folder: Path) -> None:
    """Fork a process that would live for minutes, and note its number."""
    if (child := os.fork()) == 0:
        time.sleep(300)
        os._exit(0)
    (folder / f"fork-{child}").touch()


def hold_the_interpreter() -> None:
    ctypes.PyDLL(None).sleep(300)


def write_into_all_descriptors(content: bytes) -> None:
    for number in range(3, 64):
        try:
            os.write(number, content)
        except OSError:
            continue


@dataclass(frozen=True)
class Misbehaving:
    """An evaluator that does harm when it has the shard that starts at ``BAD``; workers import it from this file."""

    folder: Path
    harm: str

    def __call__(self, shard: Shard) -> Record | Failure:
        (self.folder / f"worker-{os.getpid()}").touch()
        if shard.start == BAD:
            (self.folder / f"attempt-{time.time_ns()}").touch()
            return getattr(self, self.harm)(shard) or record_of(shard.header)
        return record_of(shard.header)

    def exit_0(self, shard: Shard) -> None:
        os._exit(0)

    def exit_3(self, shard: Shard) -> None:
        os._exit(3)

    def abort(self, shard: Shard) -> None:
        os.abort()

    def segfault(self, shard: Shard) -> None:
        ctypes.string_at(0)

    def sigkill(self, shard: Shard) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def sigterm(self, shard: Shard) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def die_with_a_fork_alive(self, shard: Shard) -> None:
        sleep_in_a_fork(self.folder)
        os._exit(3)

    def live_with_a_fork_alive(self, shard: Shard) -> None:
        sleep_in_a_fork(self.folder)

    def another_shard(self, shard: Shard) -> Record:
        return record_of(SHARDS[0].header)

    def no_record(self, shard: Shard) -> Any:
        return "done"

    def garbage(self, shard: Shard) -> None:
        write_into_all_descriptors(b"garbage")

    def begun_message(self, shard: Shard) -> None:
        """Half of what could be a message by its size; its reader must not wait for the rest."""
        write_into_all_descriptors(bytes(TOKEN_SIZE) + (1 << 40).to_bytes(LENGTH_SIZE))
        time.sleep(300)

    def close_descriptors(self, shard: Shard) -> None:
        os.closerange(3, 256)
        time.sleep(300)

    def hang(self, shard: Shard) -> None:
        sleep_in_a_fork(self.folder)
        time.sleep(300)

    def hang_in_c(self, shard: Shard) -> None:
        hold_the_interpreter()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/status")
    return not (status.exists() and "\nState:\tZ" in status.read_text())


def left_of(folder: Path, kind: str) -> list[int]:
    """Return which of the processes noted in a folder run on, once those that are being killed had time to go."""
    noted = [int(path.name.partition("-")[2]) for path in folder.glob(f"{kind}-*")]
    for _ in range(100):
        if not (found := [process for process in noted if is_running(process)]):
            break
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("exit_0", "ended itself with exit code 0, 3 times: a model must not end its process, as os._exit does"),
        ("exit_3", "ended itself with exit code 3, 3 times: a model must not end its process, as os._exit does"),
        ("abort", "crashed (SIGABRT), 3 times: native code of the model, or of a library that it uses, failed"),
        ("segfault", "crashed (SIGSEGV), 3 times: native code of the model, or of a library that it uses, failed"),
        ("sigkill", "was killed (SIGKILL), 3 times: memory may be short: try fewer --workers"),
        ("sigterm", "was ended from outside (SIGTERM), 3 times: run it again"),
        ("die_with_a_fork_alive", "ended itself with exit code 3, 3 times"),
        ("another_shard", f"answered for another shard than the one it was given ({SHARDS[0].header.title}), 3 times"),
        ("no_record", "answered for another shard than the one it was given (a str), 3 times"),
        ("garbage", "wrote something other than its result into the pipe to the run, 3 times"),
        ("begun_message", "wrote something other than its result into the pipe to the run, 3 times"),
        ("close_descriptors", "closed its pipe to the run, 3 times"),
    ],
)
def test_a_shard_that_ends_its_workers_is_given_up_by_name_and_the_rest_is_measured(
    tmp_path: Path, harm: str, error: str
) -> None:
    results = {each.shard.start: each for each in ProcessExecutor([Misbehaving(tmp_path, harm)]).execute(SHARDS)}
    assert sorted(results) == [shard.start for shard in SHARDS]
    failure = results.pop(BAD)
    assert isinstance(failure, Failure)
    assert failure.error.startswith(f"the worker process {error}")
    assert all(isinstance(result, Record) for result in results.values())
    assert len(list(tmp_path.glob("attempt-*"))) == MAX_DEATHS
    assert left_of(tmp_path, "fork") == left_of(tmp_path, "worker") == []


@pytest.mark.parametrize("harm", ["hang", "hang_in_c"])
def test_a_shard_over_its_time_is_tried_again_and_given_up(tmp_path: Path, harm: str) -> None:
    executor = ProcessExecutor([Misbehaving(tmp_path, harm)], shard_timeout=1.5)
    results = {each.shard.start: each for each in executor.execute(SHARDS)}
    failure = results.pop(BAD)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("the worker process took longer than 1.5 s, 3 times: the model may hang")
    assert len(results) == len(SHARDS) - 1
    assert all(isinstance(result, Record) for result in results.values())
    assert left_of(tmp_path, "fork") == left_of(tmp_path, "worker") == []


def test_what_a_living_worker_forked_ends_with_it(tmp_path: Path) -> None:
    results = list(ProcessExecutor([Misbehaving(tmp_path, "live_with_a_fork_alive")]).execute(SHARDS))
    assert all(isinstance(result, Record) for result in results)
    assert len(list(tmp_path.glob("fork-*"))) == 1
    assert left_of(tmp_path, "fork") == []


@dataclass(frozen=True)
class EndingAlways:
    def __call__(self, shard: Shard) -> Record | Failure:
        os._exit(0)


def test_however_many_shards_end_their_workers_the_run_goes_on() -> None:
    results = list(ProcessExecutor([EndingAlways()]).execute(SHARDS[:4]))
    assert [result.shard.start for result in results] == [0, 100, 200, 300]
    assert all(isinstance(result, Failure) for result in results)


@dataclass(frozen=True)
class Printing:
    def __call__(self, text: str) -> str:
        print(text, flush=True)  # noqa: T201
        os.write(1, text.encode())
        return text


def test_what_a_worker_prints_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(answers_in_a_process(Printing(), ["printed"], 60)) == ["printed"]
    captured = capfd.readouterr()
    assert (captured.out, captured.err.count("printed")) == ("", 2)


@dataclass(frozen=True)
class Ending:
    def __call__(self, exit_code: int) -> str:
        if exit_code >= 0:
            os._exit(exit_code)
        return "alive"


def test_tasks_in_a_process_tell_how_it_ended_and_the_next_has_a_new_one() -> None:
    answers = list(answers_in_a_process(Ending(), [5, -1, 6, -1, -1], 60))
    assert [each.what if isinstance(each, Death) else each for each in answers] == [
        "ended itself with exit code 5",
        "alive",
        "ended itself with exit code 6",
        "alive",
        "alive",
    ]


PARENT = """
import sys
from pathlib import Path
from test_scheduling_workers import *
if __name__ == "__main__":
    # nohup has those that it starts ignore it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    list(ProcessExecutor([Misbehaving(Path(sys.argv[1]), sys.argv[2])] * 2).execute(SHARDS[2:3] * 2))
"""


@pytest.mark.parametrize("harm", ["hang", "hang_in_c"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_workers_and_what_they_forked_end_when_their_parent_is_killed(
    tmp_path: Path, harm: str, number: signal.Signals
) -> None:
    (tmp_path / "script.py").write_text(PARENT)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path, harm],
        env=os.environ | {"PYTHONPATH": path},
        # Not read to the end, which would wait for those that should be gone.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while len(list(tmp_path.glob("attempt-*"))) < 2 or (harm == "hang" and len(list(tmp_path.glob("fork-*"))) < 2):
        assert parent.poll() is None
        time.sleep(0.05)
    parent.send_signal(number)
    parent.wait()
    assert left_of(tmp_path, "worker") == left_of(tmp_path, "fork") == []


class TestInbox:
    TOKEN = b"0123456789abcdef"

    def message(self, content: bytes) -> bytes:
        return self.TOKEN + len(content).to_bytes(LENGTH_SIZE) + content

    def test_messages_are_put_together_from_any_pieces(self) -> None:
        import pickle

        sent = self.message(pickle.dumps("a" * 1000)) + self.message(pickle.dumps([1]))
        for size in (1, 7, 24, 5000):
            inbox, found = Inbox(self.TOKEN), []
            for start in range(0, len(sent), size):
                found += inbox.messages(sent[start : start + size])
            assert found == ["a" * 1000, [1]]

    @pytest.mark.parametrize("content", [b"x", b"0123x", bytes(30)])
    def test_bytes_of_no_message_are_noticed_at_once(self, content: bytes) -> None:
        with pytest.raises(GarbledError):
            Inbox(self.TOKEN).messages(content)

    def test_a_message_that_cannot_be_read_is_noticed(self) -> None:
        with pytest.raises(GarbledError):
            Inbox(self.TOKEN).messages(self.message(b"not a pickle"))
