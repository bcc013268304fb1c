"""Workers that die, hang, answer nonsense or leave processes behind cost their shard alone; tests/slow has more."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from misbehaving_workers import BAD, SHARDS, Misbehaving, left_of

from examples import MEASUREMENT
from robench.core.records import Failure, Provenance, Record
from robench.core.shard import Shard, into_shards
from robench.executors import Death, ProcessExecutor, answers_in_a_process, worker_process
from robench.executors.processes import MAX_DEATHS
from robench.executors.worker import LENGTH_SIZE, GarbledError, Inbox
from robench.scheduling import ShardQueue


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("segfault", "crashed (SIGSEGV), 3 times: native code of the model, or of a library that it uses, failed"),
        pytest.param("die_with_a_fork_alive", "ended itself with exit code 3, 3 times", marks=pytest.mark.slow),
        pytest.param(
            "begun_message",
            "wrote something other than its result into the pipe to the run, 3 times",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_shard_that_ends_its_workers_is_given_up_and_the_rest_measured(tmp_path: Path, harm: str, error: str) -> None:
    results = {
        each.shard.start: each for each in ProcessExecutor([Misbehaving(tmp_path, harm)]).execute(ShardQueue(SHARDS))
    }
    assert sorted(results) == [shard.start for shard in SHARDS]
    failure = results.pop(BAD)
    assert isinstance(failure, Failure)
    assert failure.error.startswith(f"the worker process {error}")
    assert all(isinstance(result, Record) for result in results.values())
    assert len(list(tmp_path.glob("attempt-*"))) == MAX_DEATHS
    assert left_of(tmp_path, "fork") == left_of(tmp_path, "worker") == []


@pytest.mark.slow
def test_a_shard_over_its_time_is_tried_again_and_given_up(tmp_path: Path) -> None:
    executor = ProcessExecutor([Misbehaving(tmp_path, "hang")], shard_timeout=1.5)
    results = {each.shard.start: each for each in executor.execute(ShardQueue(SHARDS))}
    failure = results.pop(BAD)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("the worker process took longer than 1.5 s, 3 times: the model may hang")
    assert len(results) == len(SHARDS) - 1
    assert all(isinstance(result, Record) for result in results.values())
    assert left_of(tmp_path, "fork") == left_of(tmp_path, "worker") == []


@pytest.mark.slow
def test_a_silent_worker_is_replaced_before_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "SECONDS_BETWEEN_BEATS", 0.1)
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 1.5)
    executor = ProcessExecutor([Misbehaving(tmp_path, "hang_in_c")])
    results = {each.shard.start: each for each in executor.execute(ShardQueue(SHARDS))}
    failure = results.pop(BAD)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("the worker process gave no sign of life for 1.5 s, 3 times: native code")
    assert all(isinstance(result, Record) for result in results.values())
    assert left_of(tmp_path, "worker") == []


@pytest.mark.slow
def test_a_worker_that_takes_long_but_lives_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "SECONDS_BETWEEN_BEATS", 0.1)
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 1.5)
    results = list(ProcessExecutor([Misbehaving(tmp_path, "take_three_seconds")]).execute(ShardQueue(SHARDS)))
    assert all(isinstance(result, Record) for result in results)
    assert len(list(tmp_path.glob("attempt-*"))) == 1


@dataclass(frozen=True)
class Telling:
    """An evaluator whose failures tell the number of their process; those of model ``spoiling`` spoil it."""

    def __call__(self, shard: Shard, following: Shard | None = None) -> Failure:
        assert following is None or following.measurement.foreign_code == shard.measurement.foreign_code
        provenance = Provenance(device="cpu", versions={}, seconds=0.0, finished_at="2026-01-01T00:00:00+00:00")
        spoils = shard.measurement.foreign_code == "model 'spoiling'"
        return Failure(
            shard=shard.header, error=str(os.getpid()), traceback="", provenance=provenance, spoils_process=spoils
        )


def of_code(foreign_code: str, name: str = "vit") -> list[Shard]:
    """Return two shards of a model whose measurement has this foreign code."""
    checkpoint = replace(MEASUREMENT.checkpoint, name=name)
    identity = replace(MEASUREMENT.dataset, fingerprint=f"{name} {foreign_code}")
    measurement = replace(MEASUREMENT, checkpoint=checkpoint, dataset=identity, foreign_code=foreign_code)
    return list(into_shards([measurement], batches_per_shard=1))[:2]


def test_code_of_others_shares_no_process_with_other_shards_and_a_spoiled_process_is_replaced() -> None:
    own, theirs, plain = of_code("perturbation 'x' on model 'vit'"), of_code("model 'm'", "m"), of_code("")
    shards = [*of_code("model 'spoiling'", "spoiling"), *own, *theirs, *plain, *of_code("", "second")]
    queue = ShardQueue(shards, is_alone=True)
    processes: dict[str, list[str]] = {}
    for result in ProcessExecutor([Telling()]).execute(queue):
        assert isinstance(result, Failure)
        processes.setdefault(result.shard.dataset.fingerprint, []).append(result.error)
    numbers = {name: set(each) for name, each in processes.items()}
    # A process that ran robench's code alone may go on with that of others, and never the other way round.
    assert numbers["vit "] == numbers["vit perturbation 'x' on model 'vit'"]
    assert [len(numbers[name]) for name in ("spoiling model 'spoiling'", "m model 'm'", "second ")] == [2, 1, 1]
    assert len(set[str]().union(*numbers.values())) == 5


def test_tasks_with_code_of_others_have_a_process_each() -> None:
    tasks = ["own", "own", "theirs", "theirs", "own"]
    found = list(answers_in_a_process(own_number, tasks, 60.0, is_foreign="theirs".__eq__))
    assert found[0] == found[1]
    assert len(set(found)) == 4


def own_number(task: str) -> int:
    return os.getpid()


@pytest.mark.slow
def test_what_a_living_worker_forked_ends_with_it(tmp_path: Path) -> None:
    results = list(ProcessExecutor([Misbehaving(tmp_path, "live_with_a_fork_alive")]).execute(ShardQueue(SHARDS)))
    assert all(isinstance(result, Record) for result in results)
    assert len(list(tmp_path.glob("fork-*"))) == 1
    assert left_of(tmp_path, "fork") == []


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


@pytest.mark.slow
def test_tasks_in_a_process_tell_how_it_ended_and_the_next_has_a_new_one() -> None:
    answers = list(answers_in_a_process(Ending(), [5, -1, 6, -1, -1], 60))
    assert [each.what if isinstance(each, Death) else each for each in answers] == [
        "ended itself with exit code 5", "alive", "ended itself with exit code 6", "alive", "alive",
    ]  # fmt: skip


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
