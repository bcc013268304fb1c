"""``robench submit``: divides a run, or papers' tables, among an array of Slurm jobs; then writes the tables."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robench.cli.main import GIVEN_UP
from robench.cli.options import (
    all_seeds_option,
    audit_options,
    keep_adversarial_option,
    measuring_options,
    model_option,
    number_option,
    only_option,
    option,
    path_option,
    precision_option,
    suite_option,
)
from robench.cli.paper_tables import CHOOSING, ChosenTables
from robench.cli.reproduce_command import seeds_option
from robench.cli.selection import OF_SUITES, Selection, selecting
from robench.cli.submitted_work import COMMON, check_options, work_of_models, work_of_tables
from robench.cli.terminal import out, out_document
from robench.core.errors import UsageError
from robench.core.files import absolute, write_whole, writing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.runs.slurm import SlurmJobs

MOST_JOBS = 1000
_jobs_option = partial(option, type=click.IntRange(1, MOST_JOBS), metavar="N")
# Suites and models are not required, since papers' tables may be named in their place.
_SELECTING = (
    *(click.argument("names", nargs=-1, metavar="[PAPER:NUMBER...]"), *CHOOSING, seeds_option),
    *(suite_option(required=False), model_option(required=False), *OF_SUITES[1:]),
    *(only_option, precision_option, all_seeds_option),
)


@click.command("submit")
@selecting(_SELECTING)
@measuring_options
@keep_adversarial_option
@audit_options
@_jobs_option("--jobs", "num_jobs", required=True, help="Number of jobs, a node each.")
@_jobs_option("--at-once", help="Largest number of jobs at a time.")
@option("--time", metavar="LIMIT", help="Time limit of a job, such as 12:00:00; at the limit it is queued again.")
@option("--partition", metavar="NAME", help="Partition of all jobs.")
@option("--account", metavar="NAME", help="Account of all jobs.")
@option("--gpus-per-job", "num_gpus", type=click.IntRange(1, 64), metavar="N", help="GPUs of a job.")
@option("--cpus-per-job", "num_cpus", type=click.IntRange(1, 4096), metavar="N", help="CPU cores of a job.")
@option("--mem", "memory", metavar="SIZE", help="Memory of a job, such as 32G.")
@option(
    "--sbatch-option", "options", multiple=True, metavar="TEXT", help="Further option of sbatch, such as --qos=long."
)
@option(
    "--tables-option",
    "table_options",
    multiple=True,
    metavar="TEXT",
    help="The same for the job that writes the tables.",
)
@number_option(
    "--max-requeues",
    "How often a job that reached its time limit is queued again.",
    least=0,
    default=100,
    show_default=True,
)
@option("--setup", multiple=True, metavar="COMMAND", help="Line of bash before robench, such as 'module load cuda'.")
@option("--python", metavar="PROGRAM", help="Interpreter that has robench on the nodes; default: this one.")
@path_option(
    "--tables",
    "FILE",
    "Write the table there when all jobs have ended (.html, .md, .csv, .json or .tex).",
    multiple=True,
)
@path_option("--output", "FOLDER", "Folder of the scripts; default: slurm in --results.")
@option("--dry-run", is_flag=True, help="Print the scripts; write and submit nothing.")
def command(
    selection: Selection,
    names: tuple[str, ...],
    every: bool,
    seeds: int | None,
    keep_adversarial: str | None,
    python: str | None,
    tables: tuple[Path, ...],
    output: Path | None,
    dry_run: bool,
    # Further options say what of tables is chosen, are passed on, or are named and typed as fields of ``SlurmJobs``.
    **further: Any,
) -> int:
    """Submit an array of Slurm jobs that measure, and a job that prints the tables when they have ended.

    The jobs run 'robench run' for suites and models, or 'robench reproduce' for papers' tables such as rpc:1, with the
    models that these lack. They divide the work among themselves and share the results folder, which must be on a file
    system that all nodes see. Their scripts and logs are in its folder 'slurm'. Repeating the command does only what is
    missing.
    """
    from robench.runs.slurm import SlurmJobs, array_text, tables_text

    common = {name: further.pop(name) for name in COMMON}
    chosen: dict[str, Any] = {name: further.pop(name) for name in ("rows", "columns", "of_twins")}
    of_tables = every or bool(names)
    check_options(click.get_current_context(), names, of_tables=of_tables)
    if of_tables:
        chosen |= {"limit": selection.limit, "results": selection.results, "registries": selection.registries}
        work = work_of_tables(ChosenTables(names=names, every=every, **chosen), seeds, common)
    else:
        work = work_of_models(selection, common, keep_adversarial, tables)
    results, program = selection.results, python or sys.executable
    jobs = SlurmJobs(
        folder=output or results / "slurm",
        logs=results / "slurm",
        working_folder=absolute(".", "the current folder"),
        python=str(absolute(program, "--python")) if os.sep in program else program,
        given_up=GIVEN_UP,
        **work,
        **further,
    )
    scripts = {jobs.array_script: array_text(jobs), jobs.tables_script: tables_text(jobs)}
    if dry_run:
        for path, text in scripts.items():
            out(f"==> {path} <==")
            out_document(text)
        return 0
    _write(jobs, scripts, results)
    _submit(jobs)
    return 0


def _write(jobs: SlurmJobs, scripts: Mapping[Path, str], results: Path) -> None:
    from robench.store import FolderStore

    FolderStore(results).check_writable()
    with writing(jobs.folder):
        # Slurm creates no folder for logs; a job without one fails without a word.
        jobs.logs.mkdir(parents=True, exist_ok=True)
        for path, text in scripts.items():
            # Names of files may be no UTF-8.
            write_whole(path, os.fsencode(text))


def _submit(jobs: SlurmJobs) -> None:
    from robench.runs.slurm import submitted

    array = submitted(jobs.array_script)
    number = array.partition(";")[0]
    try:
        tables = submitted(jobs.tables_script, after=array)
    except UsageError as error:
        raise UsageError(
            f"the array is submitted as job {number}, but not the job of its tables: {error}",
            f"Submit it with 'sbatch --dependency=afterany:{number} {jobs.tables_script}', or cancel the array with "
            f"'scancel {number}'.",
        ) from error
    out(
        f"array of {jobs.num_jobs} job{'s' * (jobs.num_jobs != 1)} that measure: {number}",
        f"job of the tables, which waits for them: {tables.partition(';')[0]}",
        f"scripts: {jobs.folder}",
        f"logs: {jobs.logs}",
    )
