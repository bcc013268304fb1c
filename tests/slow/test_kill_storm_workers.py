"""200 shards, 30 SIGKILLs on workers and 10 on the run: every shard right, and few executions more than shards."""

import logging
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from examples import MEASUREMENT, record_of
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard, into_shards
from robench.executors import ProcessExecutor
from robench.scheduling import run_shards
from robench.store import FolderStore

NUM_SHARDS, WORKER_KILLS, RUN_KILLS = 200, 30, 10
DATA = DatasetIdentity(name="digits", fingerprint="f", num_examples=NUM_SHARDS * MEASUREMENT.batch_size)
SHARDS = list(into_shards([replace(MEASUREMENT, dataset=DATA)], batches_per_shard=1))


@dataclass(frozen=True)
class Marking:
    """Evaluator that leaves a file for each execution; workers import it from this file."""

    folder: Path

    def __call__(self, shard: Shard, following: Shard | None = None) -> Record:
        (self.folder / f"{shard.key}-{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(0.15)
        return record_of(shard.header)


def run(folder: str) -> None:
    executor = ProcessExecutor([Marking(Path(folder) / "executions")] * 2)
    store = FolderStore(Path(folder) / "results")
    run_shards([each for each in SHARDS if not store.has(each.measurement.key, each.key)], executor, store)


def at_work(run_id: int, folder: Path) -> list[int]:
    """Return the living children of a run that have begun to measure: others cost nothing but their start."""
    begun = {int(path.name.split("-")[1]) for path in (folder / "executions").iterdir()}
    try:
        tasks = list(Path(f"/proc/{run_id}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return [child for child in children if child in begun and not is_zombie(child)]
    except FileNotFoundError:
        return []


def is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_storm_of_kills_costs_a_shard_each_at_most(tmp_path: Path) -> None:
    (tmp_path / "executions").mkdir()
    moments = random.Random(0)
    kills = ["worker"] * WORKER_KILLS + ["run"] * RUN_KILLS
    moments.shuffle(kills)
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_kill_storm_workers as t; t.run({str(tmp_path)!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", code], env=environment)

    process = started()
    for kind in kills:
        victim = process.pid if kind == "run" else None
        # Only a worker at work is worth killing; wait until there is one that lives for a moment more.
        while not (alive := at_work(process.pid, tmp_path)):
            assert process.poll() is None, "the run ended before all kills"
            time.sleep(0.02)
        time.sleep(moments.uniform(0.0, 0.2))
        while victim is None:
            alive = at_work(process.pid, tmp_path)
            victim = moments.choice(alive) if alive else None
            assert process.poll() is None, "the run ended before all kills"
        os.kill(victim, signal.SIGKILL)
        if kind == "run":
            process.wait()
            process = started()
    assert process.wait() == 0
    records = list(FolderStore(tmp_path / "results").records(lambda header: True))
    assert len(records) == NUM_SHARDS
    expected = {shard.key: record_of(shard.header).outcomes for shard in SHARDS}
    assert all(record.outcomes == expected[record.shard.key] for record in records)
    assert list(FolderStore(tmp_path / "results").failures()) == []
    executions = len(list((tmp_path / "executions").iterdir()))
    logging.getLogger(__name__).info("%d executions of %d shards", executions, NUM_SHARDS)
    # A killed run loses the shards of both workers, and a result that was about to be written.
    assert NUM_SHARDS <= executions <= NUM_SHARDS + WORKER_KILLS + 3 * RUN_KILLS
