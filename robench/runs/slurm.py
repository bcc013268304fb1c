"""Jobs of Slurm that measure a request and write its tables: their settings, checked, and their submission."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

Words = tuple[str, ...]

# Slurm looks at time limits about twice a minute, so that the signal may come a minute earlier. robench needs seconds.
SIGNAL_SECONDS = 120
# A shorter job would get the signal before it has measured anything, and so each time that it is queued again.
LEAST_MINUTES = 5

_TIME = re.compile(
    r"(?:(?P<days>\d{1,4})-(?P<day_hours>\d{1,2})(?::(?P<day_minutes>\d{1,2})(?::\d{1,2})?)?"
    r"|(?P<hours>\d{1,5}):(?P<hour_minutes>\d{1,2}):\d{1,2}"
    r"|(?P<minutes>\d{1,7})(?::\d{1,2})?)",
    re.ASCII,
)
_MEMORY = re.compile(r"\d{1,12}[KMGT]?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobs:
    """Array of jobs that measure, and a job that writes the tables once all of them have ended.

    Attributes:
        what: options of all commands, which say what is measured and where it is stored; each with its value.
        run: further options of ``robench run``, without those that divide the work.
        tables: commands of robench that print or write the tables, without ``what``.
        num_jobs: number of jobs of the array.
        folder: folder of the scripts.
        logs: folder of the jobs' output.
        working_folder: folder in which the jobs start.
        python: interpreter that runs robench.
        setup: lines of bash that are run before it, such as ``module load cuda``.
        time: time limit of a job in one of Slurm's formats; None for the partition's.
        memory: memory of a job, such as ``32G``; None for the partition's default.
        options: further options of sbatch for the array, such as ``--constraint=a100``.
        table_options: the same for the job that writes the tables.
        max_requeues: number of times that a job of the array may be queued again.
        given_up: exit code of ``robench run`` upon SIGUSR1.

    Raises:
        UsageError: Slurm cannot take a value.
    """

    what: tuple[Words, ...]
    run: Words
    tables: tuple[Words, ...]
    num_jobs: int
    folder: Path
    logs: Path
    working_folder: Path
    python: str
    setup: tuple[str, ...] = ()
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    num_gpus: int | None = None
    num_cpus: int | None = None
    memory: str | None = None
    options: tuple[str, ...] = ()
    table_options: tuple[str, ...] = ()
    max_requeues: int
    given_up: int

    def __post_init__(self) -> None:
        self._check_time()
        self._check_texts()
        for name, path in (("--results", self.logs.parent), ("the current folder", self.working_folder)):
            if _CONTROL.search(str(path)):
                raise UsageError(f"{name} is {str(path)!r}, which #SBATCH lines cannot name; choose another folder")
        if "\\" in str(self.logs):
            raise UsageError(
                f"--results is {str(self.logs.parent)!r}, and Slurm takes a backslash in the path of a log for a sign "
                "of its own; choose another folder"
            )

    @property
    def array_script(self) -> Path:
        """Return the file of the array's script."""
        return self.folder / "measure.sbatch"

    @property
    def tables_script(self) -> Path:
        """Return the file of the script that writes the tables."""
        return self.folder / "tables.sbatch"

    def _check_time(self) -> None:
        if self.time is None:
            return
        minutes = _minutes(self.time)
        if minutes is None:
            raise UsageError(
                f"--time must be minutes, hours:minutes:seconds or days-hours:minutes:seconds, got {self.time!r}"
            )
        if minutes < LEAST_MINUTES:
            raise UsageError(
                f"--time must be at least {LEAST_MINUTES} minutes, got {self.time!r}: jobs are stopped "
                f"{SIGNAL_SECONDS} seconds or more before the limit, and would measure nothing"
            )

    def _check_texts(self) -> None:
        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise UsageError(f"--mem must be such as 32G, or a number of megabytes, got {self.memory!r}")
        named = {"--partition": self.partition, "--account": self.account}
        for name, value in named.items():
            if value is not None and not _is_line(value):
                raise UsageError(f"{name} must be a name, got {value!r}")
        for name, values in {"--sbatch-option": self.options, "--tables-option": self.table_options}.items():
            for value in values:
                if not value.startswith("-") or not _is_line(value):
                    raise UsageError(f"{name} must be an option of sbatch, such as --qos=long, got {value!r}")
        for name, values in {"--setup": self.setup, "--python": (self.python,)}.items():
            for value in values:
                if not _is_line(value):
                    raise UsageError(f"{name} must be one line of bash, got {value!r}")


def _is_line(text: str) -> bool:
    return bool(text.strip()) and text.isprintable()


def _minutes(time: str) -> int | None:
    """Return a time limit in whole minutes, or None if it is in none of Slurm's formats.

    >>> _minutes("90"), _minutes("1:30:00"), _minutes("1-2"), _minutes("2 h")
    (90, 90, 1560, None)
    """
    found = _TIME.fullmatch(time)
    if found is None:
        return None
    part = {name: int(value or 0) for name, value in found.groupdict().items()}
    hours = part["days"] * 24 + part["day_hours"] + part["hours"]
    return hours * 60 + part["day_minutes"] + part["hour_minutes"] + part["minutes"]


def submitted(script: Path, *, after: str | None = None) -> str:
    """Submit a script with sbatch and return the job's id, followed by ``;`` and its cluster where sbatch names one.

    Args:
        script: the script.
        after: what ``submitted`` returned for another job, which must end before this one starts.

    Raises:
        UsageError: sbatch is missing or refuses the job; the message has what it said.
    """
    options = ["--parsable"]
    if after is not None:
        job, _, cluster = after.partition(";")
        options += [f"--dependency=afterany:{job}", *([f"--clusters={cluster}"] if cluster else [])]
    command = ["sbatch", *options, os.fspath(script)]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as sbatch:
            printed = [text.decode(errors="backslashreplace").strip() for text in sbatch.communicate()]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            "no program sbatch is on the PATH; submit from a machine of the Slurm cluster, or see the scripts with "
            "--dry-run"
        ) from error
    except OSError as error:
        raise UsageError(f"sbatch cannot be run ({error.strerror})") from error
    answer, complaint = printed
    if sbatch.returncode != 0 or not re.fullmatch(r"\d+(;[\w.-]+)?", answer):
        said = complaint or answer or "it said nothing"
        raise UsageError(f"sbatch did not take {script} (exit code {sbatch.returncode}): {said}")
    if complaint:
        logging.getLogger(__name__).warning("%s", complaint)
    return answer
