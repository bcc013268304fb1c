"""Several processes, some of them killed: only whole files, each shard once, the first writer wins."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples import PROVENANCE, failure_of, header_of, outcomes_of, record_of
from robench.store import FolderStore
from robench.store.paths import Paths

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier, Event

    from robench.core.records import Failure, Record
    from robench.core.shard import ShardHeader

SPAWN = multiprocessing.get_context("spawn")
NUM_KILLS = 2
NUM_SHARED = 15
NUM_OWN = 5


def header(number: int) -> ShardHeader:
    return header_of(f"{number % 3:032x}", number * 50, number * 50 + 50)


def record(number: int, *, writer: int = 0) -> Record:
    """The record of a shard; another ``writer`` claims other passes for every example."""
    outcomes = outcomes_of(header(number), num_queries=writer)
    return record_of(header(number), outcomes, replace(PROVENANCE, device=f"device-{writer}"))


def failure(number: int) -> Failure:
    return failure_of(header(number), "killed")


def everything(store: FolderStore) -> list[Record]:
    return sorted(store.records(lambda shard: True), key=lambda kept: kept.shard.start)


def write_until_killed(folder: str, acknowledged: str, first: int, begun: Event) -> None:
    """Put one record after another, and note each once ``put`` has returned."""
    store = FolderStore(folder)
    with Path(acknowledged).open("ab", buffering=0) as notes:
        for number in range(first, first + 100_000):
            store.put(failure(number))
            store.put(record(number))
            notes.write(f"{number}\n".encode())
            begun.set()


class Counting(logging.Handler):
    """Counts the warnings of a store."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, entry: logging.LogRecord) -> None:
        self.messages.append(entry.getMessage())


def write_against_another(
    folder: str, writer: int, differ: bool, together: Barrier, told: Queue[tuple[int, list[str]]]
) -> None:
    """Put the shared shards at the same moments as the other writer, each followed by shards of one's own."""
    counting = Counting()
    logging.getLogger("robench.store").addHandler(counting)
    store = FolderStore(folder)
    for number in range(NUM_SHARED):
        met = record(number, writer=writer if differ else 0)
        together.wait()
        store.put(met)
    for number in range(NUM_OWN):
        store.put(record(1000 * (writer + 1) + number, writer=writer))
    told.put((writer, counting.messages))


def two_writers(folder: Path, *, differ: bool) -> list[str]:
    together, told = SPAWN.Barrier(2), SPAWN.Queue()
    writers = [
        SPAWN.Process(target=write_against_another, args=(str(folder), writer, differ, together, told))
        for writer in (0, 1)
    ]
    for process in writers:
        process.start()
    messages = [message for _ in writers for message in told.get()[1]]
    for process in writers:
        process.join()
        assert process.exitcode == 0
    return messages


def test_a_killed_writer_leaves_whole_files_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, notes = FolderStore(tmp_path / "results"), tmp_path / "acknowledged"
    generator = random.Random(0)
    for round_number in range(NUM_KILLS):
        begun = SPAWN.Event()
        arguments = (str(store.path), str(notes), round_number * 100_000, begun)
        writer = SPAWN.Process(target=write_until_killed, args=arguments)
        writer.start()
        begun.wait()
        time.sleep(generator.random() * 0.05)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
    acknowledged = {header(int(line)).key for line in notes.read_text().split()}
    assert len(acknowledged) >= NUM_KILLS
    assert acknowledged <= store.keys()
    kept = everything(store)
    assert kept == [record(found.shard.start // 50) for found in kept]
    # At most one shard a round was under way; its failure tells of it unless its record was there already.
    assert {found.shard.key for found in store.failures()}.isdisjoint(store.keys())
    assert len(list(store.failures())) <= NUM_KILLS
    assert caplog.records == []
    assert not (store.path / "damaged").exists()
    store.sweep(-60)
    assert list(Paths(store.path).temporary()) == []
    assert everything(store) == kept


@pytest.mark.slow
def test_two_writers_of_the_same_and_of_different_shards_keep_each_once(tmp_path: Path) -> None:
    assert two_writers(tmp_path, differ=False) == []
    store = FolderStore(tmp_path)
    kept = everything(store)
    own = [record(1000 * (writer + 1) + number, writer=writer) for writer in (0, 1) for number in range(NUM_OWN)]
    assert kept == [record(number) for number in range(NUM_SHARED)] + own
    assert list(Paths(tmp_path).temporary()) == []


def test_of_two_writers_that_disagree_one_wins_whole_and_the_other_tells(tmp_path: Path) -> None:
    messages = two_writers(tmp_path, differ=True)
    kept = everything(FolderStore(tmp_path))[:NUM_SHARED]
    for number, found in enumerate(kept):
        assert found in (record(number, writer=0), record(number, writer=1))
    # Exactly one of the two met the other's record, for every shard.
    assert len(messages) == NUM_SHARED
    assert all("device-0" in message and "device-1" in message for message in messages)
    for found in kept:
        (message,) = [message for message in messages if found.shard.key in message]
        assert f"on {found.provenance.device} ({found.provenance.finished_at}), kept" in message


@pytest.mark.slow
def test_readers_see_whole_records_while_others_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, begun = FolderStore(tmp_path / "results"), SPAWN.Event()
    arguments = (str(store.path), str(tmp_path / "notes"), 0, begun)
    writer = SPAWN.Process(target=write_until_killed, args=arguments)
    writer.start()
    begun.wait()
    seen: set[str] = set()
    for _ in range(8):
        keys = store.keys()
        assert seen <= keys
        seen = keys
        kept = everything(store)
        assert kept == [record(found.shard.start // 50) for found in kept]
    writer.kill()
    writer.join()
    assert caplog.records == []


@pytest.mark.slow
def test_equal_records_give_equal_bytes_in_another_process(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path[:0] = {[str(folder) for folder in Path(__file__).parents[:2]]!r};"
        "import test_store_writers as this;"
        "from robench.store.parquet import encode_record; sys.stdout.buffer.write(encode_record(this.record(7)))"
    )
    contents = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    FolderStore(tmp_path).put(record(7))
    assert contents == {Paths(tmp_path).record(header(7)).read_bytes()}


IMPORTS = """
import sys
from robench.store import FolderStore, MemoryStore
print(sorted({"torch", "pandas"} & set(sys.modules)))
store = FolderStore(sys.argv[1])
print(len(store.keys()), len(list(store.records(lambda shard: True))))
print(sorted({"torch", "pandas"} & set(sys.modules)))
"""


def test_importing_and_reading_need_neither_torch_nor_pandas(tmp_path: Path) -> None:
    FolderStore(tmp_path).put(record(0))
    ended = subprocess.run([sys.executable, "-c", IMPORTS, tmp_path], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[]", "1 1", "[]"]
