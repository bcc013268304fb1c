"""Plans and executors: same shards, same results, whoever runs them and whatever dies; the thread that stores them."""

import multiprocessing
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from executed_shards import (
    SHARDS,
    Broken,
    DyingAlways,
    DyingOnce,
    Recording,
    ReportingThreads,
    Slow,
    keys_of,
    measurement,
    recorded,
)
from hypothesis import given
from hypothesis import strategies as st

from examples import HEADER, NEXT_HEADER, failure_of, record_of
from robench.core.errors import RobenchError, StoreError
from robench.core.records import Failure, Record
from robench.core.shard import Shard, into_shards
from robench.executors import ProcessExecutor, SerialExecutor
from robench.executors.worker import THREAD_VARIABLES
from robench.runs.prepare import missing
from robench.scheduling import Progress, ShardQueue, run_shards
from robench.scheduling.measure import MAX_WAITING, Writer
from robench.store import FolderStore, MemoryStore


@given(num_examples=st.integers(1, 1000), batches=st.integers(1, 4), limit=st.one_of(st.none(), st.integers(1, 1200)))
def test_plans_are_anchored_and_cover_what_was_asked_for(num_examples: int, batches: int, limit: int | None) -> None:
    shards = list(into_shards([measurement("a", num_examples)], batches, limit))
    wanted = num_examples if limit is None else min(limit, num_examples)
    assert [shard.start for shard in shards] == list(range(0, wanted, 100 * batches))
    assert all(shard.stop == min(shard.start + 100 * batches, num_examples) for shard in shards[:-1])
    # The rest of a batch is computed anyway.
    assert shards[-1].stop == min(wanted + -wanted % 100, num_examples)


@given(
    num_examples=st.integers(1, 1000),
    batches=st.integers(1, 4),
    limits=st.lists(st.one_of(st.none(), st.integers(1, 1200)), max_size=5),
)
def test_runs_with_any_limits_measure_each_example_once(
    num_examples: int, batches: int, limits: list[int | None]
) -> None:
    kept: set[str] = set()
    measured: list[int] = []
    for limit in limits:
        shards = list(into_shards([measurement("a", num_examples)], batches, limit))
        todo = missing(shards, kept)
        assert missing(shards, kept, in_parts=False) == [each for each in shards if each.key not in kept]
        kept |= {shard.key for shard in todo}
        measured += [example for shard in todo for example in range(shard.start, shard.stop)]
        assert {*measured} >= {*range(shards[-1].stop)}
        assert missing(shards, kept) == []
    assert len(measured) == len({*measured})


def test_in_this_process_each_result_is_stored_before_the_next_shard_begins(tmp_path: Path) -> None:
    # The next model may end the process.
    store = FolderStore(tmp_path)
    shards = list(into_shards([measurement("a", 400)], 1))

    def evaluator(shard: Shard, following: Shard | None = None) -> Record:
        assert len(store.keys()) == shard.start // 100
        return recorded(shard)

    assert run_shards(shards, SerialExecutor(evaluator), store).num_done == 4


def test_a_limited_plan_is_the_beginning_of_the_whole_one() -> None:
    limited = list(into_shards([measurement("a")], 1, limit=250))
    assert [shard.key for shard in limited] == [shard.key for shard in SHARDS[:3]]


def test_the_serial_executor_keeps_the_order_and_stops_when_drained() -> None:
    executor = SerialExecutor(Recording())
    results = executor.execute(ShardQueue(SHARDS))
    assert next(results).shard.key == SHARDS[0].key
    executor.drain()
    assert list(results) == []


def test_processes_give_what_the_serial_executor_gives() -> None:
    serial = {result.shard.key: result for result in SerialExecutor(Recording()).execute(ShardQueue(SHARDS))}
    spawned = {result.shard.key: result for result in ProcessExecutor([Recording()] * 2).execute(ShardQueue(SHARDS))}
    assert spawned == serial


def test_workers_are_told_to_use_one_thread_and_the_parent_is_not() -> None:
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    (result,) = ProcessExecutor([ReportingThreads()]).execute(ShardQueue(SHARDS[:1]))
    assert isinstance(result, Record)
    assert [outcome.example_id for outcome in result.outcomes] == ["1"] * len(THREAD_VARIABLES)
    assert {name: os.environ.get(name) for name in THREAD_VARIABLES} == before


def test_a_killed_worker_costs_at_most_its_shard(tmp_path: Path) -> None:
    results = list(ProcessExecutor([DyingOnce(tmp_path, 200)] * 2).execute(ShardQueue(SHARDS)))
    assert all(isinstance(result, Record) for result in results)
    assert keys_of(results) == keys_of(recorded(shard) for shard in SHARDS)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_shard_that_kills_three_workers_becomes_a_failure_and_the_rest_finishes() -> None:
    results = list(ProcessExecutor([DyingAlways(300)] * 2).execute(ShardQueue(SHARDS)))
    (failure,) = [result for result in results if isinstance(result, Failure)]
    assert (failure.shard.condition, failure.shard.start) == ("a", 300)
    wanted = "the worker process was killed (SIGKILL), 3 times: memory may be short: try fewer --workers"
    assert failure.error == wanted
    assert keys_of(results) == keys_of(recorded(shard) for shard in SHARDS)


def test_workers_that_cannot_even_start_end_the_run_with_a_reason() -> None:
    with pytest.raises(RobenchError, match=r"exit code 7.*--executor serial"):
        list(ProcessExecutor([Broken()]).execute(ShardQueue(SHARDS)))


def test_draining_finishes_what_is_under_way_and_begins_nothing() -> None:
    executor = ProcessExecutor([Slow()] * 2)
    results = executor.execute(ShardQueue(SHARDS))
    first = next(results)
    executor.drain()
    rest = list(results)
    assert 1 <= len([first, *rest]) <= 4


def test_leaving_early_ends_the_workers() -> None:
    results = ProcessExecutor([Slow()] * 2).execute(ShardQueue(SHARDS))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert workers_alive() == []


def workers_alive() -> list[str]:
    return [process.name for process in multiprocessing.active_children() if process.name == "robench-worker"]


def left(shards: list[Shard], store: MemoryStore) -> list[Shard]:
    kept = store.keys()
    return [shard for shard in shards if shard.key not in kept]


def test_what_is_kept_is_counted_and_not_measured() -> None:
    store = MemoryStore()
    heard: list[Progress] = []
    first = run_shards(SHARDS, SerialExecutor(Recording()), store, heard.append)
    assert (first.num_done, first.num_failed, first.num_kept_before) == (12, 0, 0)
    assert [progress.num_done for progress in heard] == list(range(13))
    assert left(SHARDS, store) == []
    again = run_shards([], SerialExecutor(Recording()), store, num_kept=12)
    assert (again.num_done, again.num_kept_before, again.num_shards) == (0, 12, 12)


def test_failures_are_kept_and_tried_again() -> None:
    store = MemoryStore()

    def failing(shard: Shard, following: Shard | None = None) -> Record | Failure:
        if shard.start == 0:
            return failure_of(shard.header)
        return recorded(shard)

    assert run_shards(SHARDS, SerialExecutor(failing), store).num_failed == 2
    assert len(list(store.failures())) == 2
    again = left(SHARDS, store)
    assert [shard.start for shard in again] == [0, 0]
    assert run_shards(again, SerialExecutor(Recording()), store).num_done == 2
    assert list(store.failures()) == []


@dataclass(frozen=True)
class Counting:
    """Marks each execution by a file, and takes a moment for it."""

    folder: Path

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record | Failure:
        (self.folder / f"{shard.key}-{time.monotonic_ns()}").touch()
        time.sleep(0.005)
        return recorded(shard)


def test_two_runs_on_one_folder_share_the_work_and_do_nothing_twice(tmp_path: Path) -> None:
    shards = list(into_shards([measurement(name, 5000) for name in "ab"], batches_per_shard=1))
    executions = tmp_path / "executions"
    executions.mkdir()
    ended: list[Progress] = []

    def run() -> None:
        ended.append(run_shards(shards, SerialExecutor(Counting(executions)), FolderStore(tmp_path / "results")))

    runs = [threading.Thread(target=run) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert len(list(executions.iterdir())) == len(shards) == 100
    assert sum(each.num_done for each in ended) == 100
    assert min(each.num_done for each in ended) >= 25
    assert [each.num_left for each in ended] == [0, 0]
    assert FolderStore(tmp_path / "results").keys() == {shard.key for shard in shards}
    assert not (tmp_path / "results" / "leases").exists()


def test_shards_of_a_run_that_vanished_are_measured_in_the_same_run(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    first = store.claims()
    for shard in SHARDS:
        first.claim(shard.measurement.key, shard.key)
    for lease in (tmp_path / "leases").iterdir():
        os.utime(lease, (0, 0))
    progress = run_shards(SHARDS, SerialExecutor(Recording()), store)
    assert (progress.num_done, progress.num_left) == (12, 0)


def test_a_run_waits_for_the_shards_of_another_and_stops_waiting_when_drained(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.claims().claim(SHARDS[0].measurement.key, SHARDS[0].key)
    executor = SerialExecutor(Recording())
    heard: list[int] = []

    def drain_soon(progress: Progress) -> None:
        heard.append(progress.num_done)
        if progress.num_done == len(SHARDS) - 1:
            threading.Timer(0.3, executor.drain).start()

    progress = run_shards(SHARDS, executor, store, drain_soon)
    assert heard[-1] == 11
    assert (progress.num_done, progress.num_left) == (11, 1)


def test_a_store_that_cannot_keep_ends_the_workers() -> None:
    class Full(MemoryStore):
        def put(self, result: Record | Failure) -> None:
            raise RobenchError("disk full")

    with pytest.raises(RobenchError, match="disk full"):
        run_shards(SHARDS, ProcessExecutor([Slow()] * 2), Full())
    assert workers_alive() == []


FIRST, SECOND = record_of(HEADER), record_of(NEXT_HEADER)


def test_results_are_stored_in_order_by_another_thread_and_all_at_the_end() -> None:
    stored: list[tuple[Record | Failure, str]] = []

    def store(result: Record | Failure) -> None:
        time.sleep(0.01)
        stored.append((result, threading.current_thread().name))

    with Writer(store) as writer:
        for result in (FIRST, SECOND) * 3:
            writer.put(result)
    assert [result for result, _ in stored] == [FIRST, SECOND] * 3
    assert {name for _, name in stored} == {"robench-writer"}


def test_putting_waits_for_no_write_until_too_many_wait() -> None:
    gate = threading.Event()
    stored: list[Record | Failure] = []

    def store(result: Record | Failure) -> None:
        gate.wait()
        stored.append(result)

    with Writer(store) as writer:
        # One is being written, and the rest wait.
        for _ in range(MAX_WAITING):
            writer.put(FIRST)
        assert stored == []
        gate.set()
    assert len(stored) == MAX_WAITING


def test_at_once_is_before_the_next_result() -> None:
    stored: list[tuple[Record | Failure, str]] = []
    with Writer(lambda result: stored.append((result, threading.current_thread().name)), at_once=True) as writer:
        for count, result in enumerate((FIRST, SECOND), start=1):
            writer.put(result)
            assert len(stored) == count
    assert stored == [(each, threading.current_thread().name) for each in (FIRST, SECOND)]


def test_an_error_reaches_the_next_put_and_nothing_more_is_stored() -> None:
    asked: list[Record | Failure] = []

    def store(result: Record | Failure) -> None:
        asked.append(result)
        raise StoreError("disk full")

    def put_until_refused() -> None:
        with Writer(store) as writer:
            while True:
                writer.put(FIRST)
                time.sleep(0.001)

    with pytest.raises(StoreError, match="disk full"):
        put_until_refused()
    assert len(asked) == 1


def test_an_error_of_the_last_write_is_raised_at_the_end() -> None:
    def store(result: Record | Failure) -> None:
        raise StoreError("disk full")

    with pytest.raises(StoreError, match="disk full"), Writer(store) as writer:
        writer.put(FIRST)


def test_what_was_put_before_an_error_of_the_block_is_stored_and_that_error_raised() -> None:
    stored: list[Record | Failure] = []

    def interrupted() -> None:
        with Writer(stored.append) as writer:
            writer.put(FIRST)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stored == [FIRST]
