"""Batch scripts for Slurm as pure text: an array of jobs that measure, and a job that writes the tables.

Values of users reach them in two grammars: words of bash, and ``#SBATCH`` lines, which Slurm parses by itself.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from robench.runs.slurm import SIGNAL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.runs.slurm import SlurmJobs

# Options of `robench run` that divide the shards among the jobs, as words of bash.
DIVISION = '--part "$SLURM_ARRAY_TASK_ID/{num_jobs}" --take-over'
# Exit code of a process that SIGUSR1 ended before it could handle it.
_TOO_EARLY = 138
# Values that need no quotes in an #SBATCH line, where '#' begins a comment.
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)

_ABOUT_ARRAY = """\
#!/bin/bash
# Written by 'robench submit'. Each job of this array measures its part of what the results folder lacks, and then what
# is left of the other parts. Submitted again, it goes on: what is stored is not measured again.
"""
_ABOUT_TABLES = """\
#!/bin/bash
# Written by 'robench submit'. Prints the tables once all jobs of the array have ended, in whatever way:
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
# On SIGUSR1 robench gives up the shards under way, so that other jobs can measure them, and ends within seconds; what
# was finished is stored. It gets the same signal when Slurm ends this job by SIGTERM; until it has ended, because a
# program that is only just starting may miss one. Once it has given up, it ignores further ones.
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


def array_text(jobs: SlurmJobs) -> str:
    """Return the script of the array, whose jobs measure."""
    resources = {
        "time": jobs.time,
        "partition": jobs.partition,
        "account": jobs.account,
        "nodes": 1,
        "ntasks": 1,
        "gres": None if jobs.num_gpus is None else f"gpu:{jobs.num_gpus}",
        "cpus-per-task": jobs.num_cpus,
        "mem": jobs.memory,
    }
    head = (
        _ABOUT_ARRAY,
        _directives({"job-name": "robench", "array": f"1-{jobs.num_jobs}", "chdir": jobs.working_folder}),
        _directives({"output": _log(jobs, "%A_%a.log")}),
        _REQUEUE,
        _directives(resources),
        _lines(*(f"#SBATCH {option}" for option in jobs.options)),
    )
    division = DIVISION.format(num_jobs=jobs.num_jobs)
    started = (
        _what(jobs),
        "# In the background, because bash handles no signal while a program runs in front.\n",
        f"{_robench(jobs, 'run', *jobs.run)} \\\n  {division} &\n",
        _WAITING,
    )
    parts = ("".join(head), _SIGNALS, _setup(jobs), "".join(started), _requeueing(jobs))
    return "\n".join(part for part in parts if part)


def tables_text(jobs: SlurmJobs) -> str:
    """Return the script of the job that writes the tables."""
    head = (
        _ABOUT_TABLES,
        _directives(
            {"job-name": "robench-tables", "chdir": jobs.working_folder, "output": _log(jobs, "%j_tables.log")}
        ),
        _directives({"open-mode": "append", "partition": jobs.partition, "account": jobs.account}),
        _directives({"nodes": 1, "ntasks": 1}),
        _lines(*(f"#SBATCH {option}" for option in jobs.table_options)),
    )
    commands = (f"{_robench(jobs, *words)} || code=$?" for words in jobs.tables)
    parts = ("".join(head), _setup(jobs), _what(jobs), _lines("code=0", *commands, 'exit "$code"'))
    return "\n".join(part for part in parts if part)


def _requeueing(jobs: SlurmJobs) -> str:
    script = _word(str(jobs.array_script))
    return f"""\
# {jobs.given_up}: robench gave up on SIGUSR1 ({_TOO_EARLY}: it had not started yet). '#SBATCH --requeue' is not for
# jobs that end by themselves, so that this one asks for another turn, unless it is ended anyway (SIGTERM).
if [ "$signal" != TERM ] && {{ [ "$code" -eq {jobs.given_up} ] || [ "$code" -eq {_TOO_EARLY} ]; }}; then
  job="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
  if [ "${{SLURM_RESTART_COUNT:-0}}" -ge {jobs.max_requeues} ]; then
    echo "Job $job is not queued again after {jobs.max_requeues} times (--max-requeues)." >&2
    echo "If it finished no shard at all, one takes longer than the time limit." >&2
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


def _directives(values: Mapping[str, object]) -> str:
    """Return lines for Slurm, without those of None; in its quotes a backslash takes the next character's meaning."""
    lines = []
    for name, value in values.items():
        text = str(value)
        if not _PLAIN.fullmatch(text):
            escaped = re.sub(r'(["\\])', r"\\\1", text)
            text = f'"{escaped}"'
        if value is not None:
            lines.append(f"#SBATCH --{name}={text}")
    return _lines(*lines)


def _log(jobs: SlurmJobs, name: str) -> str:
    """Return the file name pattern of logs, in which a percent sign of the folder is written twice."""
    return f"{str(jobs.logs).replace('%', '%%')}/{name}"
