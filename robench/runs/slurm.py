"""Jobs of Slurm that divide a command and then write its tables: their settings, batch scripts and submission.

Scripts are pure text. Values of users reach them in two grammars: words of bash, and ``#SBATCH`` lines, which Slurm
parses by itself.
"""

import logging
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robench.core.errors import UsageError

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
# Exit code of a process that SIGUSR1 ended before it could handle it.
_TOO_EARLY = 138
# Values that need no quotes in an #SBATCH line, where '#' begins a comment.
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)

# Options of sbatch that the scripts set themselves, and what to do instead; and their short forms.
_NEEDED = "the scripts need theirs"
_OWN: Mapping[str, str] = {
    "--array": "use --jobs and --at-once",
    "--output": "logs are in the results folder",
    "--wrap": _NEEDED,
    "--chdir": "submit from that folder",
    "--open-mode": _NEEDED,
    "--requeue": _NEEDED,
    "--no-requeue": "use --max-requeues 0",
    "--signal": _NEEDED,
    "--nodes": "use --jobs",
    "--ntasks": "use --jobs",
    "--time": "use --time of robench submit",
    "--partition": "use --partition of robench submit",
    "--account": "use --account of robench submit",
    "--cpus-per-task": "use --cpus-per-job",
    "--mem": "use --mem of robench submit",
}
_SHORT = {
    "-a": "--array", "-o": "--output", "-D": "--chdir", "-N": "--nodes", "-n": "--ntasks", "-t": "--time",
    "-p": "--partition", "-A": "--account", "-c": "--cpus-per-task",
}  # fmt: skip

_ABOUT_ARRAY = """\
#!/bin/bash
# Written by 'robench submit'. Each job of this array does its part of what the results folder lacks, and then measures
# what is left of the other parts. Submitted again, it goes on from the stored results.
"""
_ABOUT_TABLES = """\
#!/bin/bash
# Written by 'robench submit'. Prints the tables once all jobs of the array have ended, successfully or not:
# sbatch --dependency=afterany:ARRAY.
"""
_REQUEUE = f"""\
# A job that is queued again adds to its log.
#SBATCH --open-mode=append
# Slurm queues a job again whose node fails, or that gives way to another.
#SBATCH --requeue
# {SIGNAL_SECONDS} seconds before the time limit this script gets SIGUSR1. Without 'B:' only programs that srun
# started would get it; there are none here.
#SBATCH --signal=B:USR1@{SIGNAL_SECONDS}
"""
_SIGNALS = """\
run=
signal=
is_waiting=yes
# On SIGUSR1 robench gives up the shards under way, so that other jobs can measure them, or stops a training, and ends
# within seconds; finished results are stored. It gets the same signal when Slurm ends this job by SIGTERM; until it has
# ended, because a program that is only just starting may miss one. Once it has given up, it ignores further ones.
pass_on() {
  signal=$1
  is_waiting=yes
  while [ -n "$run" ] && kill -s USR1 "$run" 2>/dev/null; do sleep 0.2; done
}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
"""
_WAITING = """\
run=$!
# The signal may have come before there was a process to pass it on to.
if [ -n "$signal" ]; then pass_on "$signal"; fi
# A signal ends 'wait' early, with an exit code that is not robench's.
while [ -n "$is_waiting" ]; do
  is_waiting=
  wait "$run"
  code=$?
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobs:
    """Array of jobs that measure, and a job that writes the tables once all of them have ended.

    Attributes:
        what: options of all commands, which say what is measured and where it is stored; each with its value.
        work: command of robench that each job runs, without ``what`` and ``--part``, which divides it.
        tables: commands of robench that print or write the tables, without ``what``.
        num_jobs: number of jobs of the array; ``at_once``: how many of them may run at a time, None for all.
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
        given_up: exit code of ``work`` upon SIGUSR1.

    Raises:
        UsageError: Slurm cannot take a value.
    """

    what: tuple[Words, ...]
    work: Words
    tables: tuple[Words, ...]
    num_jobs: int
    at_once: int | None = None
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
        if self.time is not None:
            _check_time(self.time)
        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise UsageError(f"--mem must be such as 32G, or a number of megabytes, got {self.memory!r}")
        for name, value in (("--partition", self.partition), ("--account", self.account)):
            if value is not None and not _is_line(value):
                raise UsageError(f"{name} must be a name, got {value!r}")
        for name, value in (*(("--setup", line) for line in self.setup), ("--python", self.python)):
            if not _is_line(value):
                raise UsageError(f"{name} must be one line of bash, got {value!r}")
        _check_options("--sbatch-option", self.options)
        _check_options("--tables-option", self.table_options)
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


def _check_time(time: str) -> None:
    minutes = _minutes(time)
    if minutes is None:
        raise UsageError(f"--time must be minutes, hours:minutes:seconds or days-hours:minutes:seconds, got {time!r}")
    if minutes < LEAST_MINUTES:
        raise UsageError(
            f"--time must be at least {LEAST_MINUTES} minutes, got {time!r}: jobs are stopped {SIGNAL_SECONDS} seconds "
            "or more before the limit, and would measure nothing"
        )


def _check_options(name: str, values: Sequence[str]) -> None:
    for value in values:
        if not value.startswith("-") or not _is_line(value):
            raise UsageError(f"{name} must be an option of sbatch, such as --qos=long, got {value!r}")
        if (own := _own_option(value)) is not None:
            raise UsageError(f"{name} must not be {own}, which the scripts set themselves: {_OWN[own]}")


def _own_option(text: str) -> str | None:
    """Return the option of sbatch that a text sets, abbreviated or not, if the scripts set it themselves.

    >>> _own_option("--arr=1-9"), _own_option("-ox.log"), _own_option("--mem-per-cpu=1G")
    ('--array', '--output', None)
    """
    if not text.startswith("--"):
        return _SHORT.get(text[:2])
    name = re.split("[= ]", text, maxsplit=1)[0]
    return next((own for own in _OWN if own.startswith(name)), None)


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

    ``after`` is what ``submitted`` returned for another job, which must end before this one starts.

    Raises:
        UsageError: sbatch is missing or refuses the job; the message quotes it.
    """
    options = ["--parsable"]
    if after is not None:
        job, _, cluster = after.partition(";")
        options += [f"--dependency=afterany:{job}", *([f"--clusters={cluster}"] if cluster else [])]
    command = ["sbatch", *options, os.fspath(script)]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as sbatch:
            answer, complaint = (text.decode(errors="backslashreplace").strip() for text in sbatch.communicate())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            "no program sbatch is on the PATH; submit from a machine of the Slurm cluster, or see the scripts with "
            "--dry-run"
        ) from error
    except OSError as error:
        raise UsageError(f"sbatch cannot be run ({error.strerror})") from error
    if sbatch.returncode != 0 or not re.fullmatch(r"\d+(;[\w.-]+)?", answer):
        reason = complaint or answer or "it printed nothing"
        raise UsageError(f"sbatch did not take {script} (exit code {sbatch.returncode}): {reason}")
    if complaint:
        logging.getLogger(__name__).warning("%s", complaint)
    return answer


def array_text(jobs: SlurmJobs) -> str:
    """Return the script of the array, whose jobs measure."""
    array = f"1-{jobs.num_jobs}" + ("" if jobs.at_once is None else f"%{jobs.at_once}")
    gpus = None if jobs.num_gpus is None else f"gpu:{jobs.num_gpus}"
    resources = {"gres": gpus, "cpus-per-task": jobs.num_cpus, "mem": jobs.memory}
    place = {"chdir": jobs.working_folder, "output": _log(jobs, "%A_%a.log")}
    head = (
        _ABOUT_ARRAY,
        _directives({"job-name": "robench", "array": array, **place}),
        _REQUEUE,
        _directives({"time": jobs.time, **_placement(jobs), **resources}, jobs.options),
    )
    started = (
        _what(jobs),
        "# In the background, because bash handles no signal while a program runs in front.\n",
        f'{_robench(jobs, *jobs.work)} \\\n  --part "$SLURM_ARRAY_TASK_ID/{jobs.num_jobs}" &\n',
        _WAITING,
    )
    return _joined("".join(head), _SIGNALS, _setup(jobs), "".join(started), _requeueing(jobs))


def tables_text(jobs: SlurmJobs) -> str:
    """Return the script of the job that writes the tables."""
    place = {"chdir": jobs.working_folder, "output": _log(jobs, "%j_tables.log"), "open-mode": "append"}
    head = _directives({"job-name": "robench-tables", **place, **_placement(jobs)}, jobs.table_options)
    commands = (f"{_robench(jobs, *words)} || code=$?" for words in jobs.tables)
    return _joined(_ABOUT_TABLES + head, _setup(jobs), _what(jobs), _lines("code=0", *commands, 'exit "$code"'))


def _placement(jobs: SlurmJobs) -> dict[str, object]:
    """Return the values of directives that both kinds of jobs have."""
    return {"partition": jobs.partition, "account": jobs.account, "nodes": 1, "ntasks": 1}


def _joined(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _requeueing(jobs: SlurmJobs) -> str:
    script = _word(str(jobs.array_script))
    return f"""\
# {jobs.given_up}: robench gave up on SIGUSR1 ({_TOO_EARLY}: it had not started yet). '#SBATCH --requeue' is not for
# jobs that end by themselves, so that this one asks for another turn, unless it is ended anyway (SIGTERM).
if [ "$signal" != TERM ] && {{ [ "$code" -eq {jobs.given_up} ] || [ "$code" -eq {_TOO_EARLY} ]; }}; then
  job="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
  if [ "${{SLURM_RESTART_COUNT:-0}}" -ge {jobs.max_requeues} ]; then
    echo "Job $job is not queued again after {jobs.max_requeues} times (--max-requeues)." >&2
    echo "If it finished nothing at all, a shard or an epoch takes longer than the time limit." >&2
  elif ! scontrol requeue "$job"; then
    echo "Job $job cannot be queued again. To go on, submit once more:" {script} >&2
  fi
fi
exit "$code"
"""


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _setup(jobs: SlurmJobs) -> str:
    return _lines(*(f"{line} || exit" for line in jobs.setup))


def _what(jobs: SlurmJobs) -> str:
    words = (f"  {' '.join(map(_word, words))}" for words in jobs.what)
    return _lines("# What is measured, and where it is stored.", "what=(", *words, ")")


def _robench(jobs: SlurmJobs, name: str, *options: str) -> str:
    # -P: modules are not looked for in the current folder first.
    return " ".join([_word(jobs.python), f'-P -m robench {name} "${{what[@]}}"', *map(_word, options)])


def _word(text: str) -> str:
    r"""Quote a word for bash, on one line and without what a terminal would obey.

    >>> print(_word("digits-vit"), _word("two words"), _word("two\nlines"))
    digits-vit 'two words' $'two\x0alines'
    """
    if text.isprintable():
        return shlex.quote(text)
    # Bytes, since names of files may be no UTF-8.
    plain = {ord("'"): r"\'", ord("\\"): r"\\"}
    escaped = (plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in os.fsencode(text))
    return f"$'{''.join(escaped)}'"


def _directives(values: Mapping[str, object], options: Sequence[str] = ()) -> str:
    """Return lines for Slurm, without those of None; in its quotes a backslash takes the next character's meaning.

    ``options`` are lines of users, as they are.
    """
    lines = []
    for name, value in values.items():
        text = str(value)
        if not _PLAIN.fullmatch(text):
            escaped = re.sub(r'(["\\])', r"\\\1", text)
            text = f'"{escaped}"'
        if value is not None:
            lines.append(f"#SBATCH --{name}={text}")
    return _lines(*lines, *(f"#SBATCH {option}" for option in options))


def _log(jobs: SlurmJobs, name: str) -> str:
    """Return the file name pattern of logs, in which a percent sign of the folder is written twice."""
    return f"{str(jobs.logs).replace('%', '%%')}/{name}"
