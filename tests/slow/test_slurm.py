"""robench submit on a Slurm of one node: arrays, tables after them, and jobs that reach their time limit."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Ended, Robench
from killed_runs import leases_in, sorted_outcomes
from real_slurm import asked, begin_slurm, of_job, wait_for_jobs, wait_until

ROOT = Path(__file__).parents[2]
MODELS = ("--model", "digits-vit", "--model", "digits-symvit")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("slurm")
    running = begin_slurm(folder)
    next(running)
    yield folder / "slurm.conf"
    running.close()  # type: ignore[attr-defined]  # a generator


@pytest.fixture
def folder(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a name that shells and Slurm could misread, which jobs start in."""
    monkeypatch.setenv("SLURM_CONF", str(cluster))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    wait_until(lambda: "idle" in asked("sinfo", "--noheader"), "the node is ready")
    path = tmp_path / 'it\'s 100% "mine" #1'
    path.mkdir()
    monkeypatch.chdir(path)
    return path


def number_of(ended: Ended) -> str:
    assert ended.code == 0, ended.stderr
    found = re.search(r"that measures?: (\d+)", ended.stdout)
    assert found is not None
    return found[1]


def test_an_array_measures_what_one_run_measures_and_then_writes_the_table(
    robench: Robench, small_suite: Callable[..., Path], folder: Path, tmp_path: Path
) -> None:
    what = ("--suite", small_suite(), *MODELS)
    array = number_of(robench("submit", *what, "--jobs", 2, "--workers", 1, "--time", 30, "--tables", "table.md"))
    wait_for_jobs()
    logs = {path.name: path.read_text() for path in (folder / "results" / "slurm").glob("*.log")}
    assert sorted(logs) == [f"{array}_1.log", f"{array}_2.log", f"{int(array) + 1}_tables.log"], logs
    assert robench("run", *what, "--results", tmp_path / "alone", "--executor", "serial").code == 0
    assert sorted_outcomes(folder / "results") == sorted_outcomes(tmp_path / "alone")
    assert len(sorted_outcomes(folder / "results")) == 18
    report = robench("report", *what, "--results", tmp_path / "alone").stdout
    assert logs[f"{int(array) + 1}_tables.log"] == f"{report}wrote {folder}/table.md\n"
    assert "digits-symvit" in (folder / "table.md").read_text()


def test_a_job_that_reaches_its_time_limit_is_queued_again_and_goes_on(
    robench: Robench, small_suite: Callable[..., Path], folder: Path
) -> None:
    suite = small_suite(**{"num_steps: 4": "num_steps: 600", "num_examples: 150": "num_examples: 300"})
    what = ("--suite", suite, "--model", "digits-vit")
    job = f"{number_of(robench('submit', *what, '--jobs', 1, '--workers', 1, '--time', 30))}_1"
    results = folder / "results"
    # Those of 600 steps come first, of which six take longer than Slurm takes to look at the limit, twice a minute.
    wait_until(lambda: bool(list(results.rglob("*.parquet"))), "a shard is measured")
    # Less than the 120 seconds before which Slurm sends the signal.
    asked("scontrol", "update", f"JobId={job}", "TimeLimit=2")
    wait_until(lambda: of_job(job)["Restarts"] == "1", "the job is queued again")
    kept = sorted_outcomes(results)
    assert 1 <= len(kept) < 18
    assert leases_in(results) == []
    log = results / "slurm" / f"{job}.log"
    assert log.read_text().count("Stopped by SIGUSR1") == 1
    # Slurm holds jobs back for two minutes that are queued again; their node would refuse them only for a second.
    time.sleep(5)
    asked("scontrol", "update", f"JobId={job}", "TimeLimit=30", "StartTime=now")
    wait_for_jobs()
    assert of_job(job)["ExitCode"] == "0:0"
    assert len(sorted_outcomes(results)) == 18
    assert set(kept) < set(sorted_outcomes(results))
    assert f"{len(kept)} of 18 shards" in log.read_text()


def test_a_job_that_is_cancelled_ends_at_once_and_keeps_what_was_finished(
    robench: Robench, small_suite: Callable[..., Path], folder: Path
) -> None:
    suite = small_suite()
    results = folder / "results"
    assert robench("run", "--suite", suite, "--model", "digits-vit", "--executor", "serial").code == 0
    kept = sorted_outcomes(results)
    suite.write_text(suite.read_text().replace("num_steps: 4", "num_steps: 40000"))
    array = number_of(robench("submit", "--suite", suite, "--model", "digits-vit", "--jobs", 1, "--workers", 1))
    wait_until(lambda: bool(leases_in(results)), "a shard is being measured")
    asked("scancel", f"{array}_1")
    wait_for_jobs()
    assert of_job(f"{array}_1")["JobState"] == "CANCELLED"
    assert sorted_outcomes(results) == kept
    assert leases_in(results) == []
    # The tables are printed however the array ended.
    (log,) = (results / "slurm").glob("*_tables.log")
    assert "missing" in log.read_text()
