"""``robench submit``: measures models under suites in an array of Slurm jobs, then writes the tables."""

from __future__ import annotations

import os
import re
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robench.cli.main import GIVEN_UP
from robench.cli.names import models_of_registry
from robench.cli.options import (
    all_seeds_option,
    keep_adversarial_option,
    measuring_options,
    no_audit_option,
    number_option,
    only_option,
    option,
    path_option,
    precision_option,
)
from robench.cli.selection import OF_MODELS, Selection, selecting
from robench.cli.terminal import out, out_document
from robench.core.errors import UsageError
from robench.core.files import absolute, write_whole, writing
from robench.core.shard import EXACT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.shard import Precision
    from robench.runs.slurm import SlurmJobs, Words

MOST_JOBS = 1000
# Options that the jobs pass on to ``robench run``, beside those of the selection.
_OF_RUN = ("data_root", "keep_adversarial", "no_audit", "device", "workers", "shard_timeout")
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


@click.command("submit")
@selecting((*OF_MODELS, only_option, precision_option, all_seeds_option))
@measuring_options
@keep_adversarial_option
@no_audit_option
@option(
    "--jobs",
    "num_jobs",
    type=click.IntRange(1, MOST_JOBS),
    required=True,
    metavar="N",
    help="Number of jobs, a node each.",
)
@option("--at-once", type=click.IntRange(1, MOST_JOBS), metavar="N", help="Largest number of jobs at a time.")
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
    python: str | None,
    tables: tuple[Path, ...],
    output: Path | None,
    dry_run: bool,
    # Further options are those of ``robench run``, or have the names and types of the fields of ``SlurmJobs``.
    **further: Any,
) -> int:
    """Submit an array of Slurm jobs that measure, and a job that prints the tables when they have ended.

    The jobs divide the work among themselves and share the results folder, which must be on a file system that all
    nodes see. Their scripts and logs are in its folder 'slurm'. Repeating the command measures only what is missing.
    """
    from robench.runs.slurm import SlurmJobs, array_text, tables_text

    results, of_run = selection.results, {name: further.pop(name) for name in _OF_RUN}
    _check(of_run["device"], selection.precision, tables)
    # Refuses now what would otherwise be refused on a node, hours later.
    selection.request(**{name: of_run[name] for name in ("workers", "shard_timeout", "keep_adversarial")})
    words = _words(**of_run | {"device": None if of_run["device"] == "auto" else of_run["device"]})
    program = python or sys.executable
    files = [("leaderboard", "--format", _format(path), "--output", str(path)) for path in tables]
    jobs = SlurmJobs(
        what=_what(selection),
        run=tuple(chain.from_iterable(words)),
        tables=(("report",), *files),
        folder=output or results / "slurm",
        logs=results / "slurm",
        working_folder=absolute(".", "the current folder"),
        python=str(absolute(program, "--python")) if os.sep in program else program,
        given_up=GIVEN_UP,
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


def _check(device: str, precision: Precision, tables: tuple[Path, ...]) -> None:
    """Refuse a device that has no such name, and pages of results in another precision."""
    if not _DEVICE.fullmatch(device):
        raise UsageError(f"--device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if tables and precision != EXACT_DTYPE:
        raise UsageError(
            f"--tables writes leaderboards, which read {EXACT_DTYPE} alone, but --precision is {precision}; leave "
            "--tables out, the log of the second job has the table"
        )


def _what(selection: Selection) -> tuple[Words, ...]:
    """Return the options of all commands about the selection."""
    return _words(
        suite=selection.suites,
        model=tuple(models_of_registry(selection.models, selection.registries)),
        registry=selection.registries,
        dataset=selection.dataset,
        condition=selection.only,
        limit=selection.limit,
        seed=selection.seed,
        all_examples=selection.all_examples,
        precision=None if selection.precision == EXACT_DTYPE else selection.precision,
        all_seeds=selection.all_seeds,
        results=selection.results,
    )


def _words(**options: object) -> tuple[Words, ...]:
    """Return options as given on a command line, each with its value; None and False are left out."""
    found: list[Words] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            found.append((flag,))
        elif value is not None and value is not False:
            found += [(flag, str(each)) for each in (value if isinstance(value, tuple) else (value,))]
    return tuple(found)


def _format(path: Path) -> str:
    from robench.leaderboard import SUFFIXES

    for name, suffix in SUFFIXES.items():
        if suffix == path.suffix:
            return name
    raise UsageError(f"--tables must name a file ending in {', '.join(SUFFIXES.values())}, got {path.name!r}")


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
