"""The jobs of an array together measure what one run measures."""

from collections.abc import Callable
from pathlib import Path

from conftest import Robench
from fake_slurm import FakeSlurm
from killed_runs import sorted_outcomes
from test_submit import slurm

__all__ = ["slurm"]


def test_the_jobs_together_measure_what_one_run_measures(
    robench: Robench, slurm: FakeSlurm, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "it's results"
    what = ("--suite", small_suite(), "--model", "digits-vit", "--model", "digits-symvit")
    asked = ("submit", *what, "--results", results, "--jobs", 2, "--workers", 1, "--tables", "table.md")
    assert robench(*asked).code == 0
    tasks = [slurm.begin_task(results / "slurm" / "measure.sbatch", number) for number in (1, 2)]
    messages = [task.communicate()[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], messages
    ended = slurm.run_task(results / "slurm" / "tables.sbatch")
    assert ended.returncode == 0
    assert robench("run", *what, "--results", tmp_path / "alone", "--executor", "serial").code == 0
    assert sorted_outcomes(results) == sorted_outcomes(tmp_path / "alone")
    assert len(sorted_outcomes(results)) == 18
    shown = robench("report", *what, "--results", tmp_path / "alone")
    assert ended.stdout == shown.stdout
    assert "digits-symvit" in (tmp_path / "table.md").read_text()
