"""Stand-ins for sbatch, scontrol and the program that a job runs; each writes down how it was called."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SBATCH = """\
#!/bin/bash
printf '%s\\0' "$@" > "{folder}/sbatch-$(ls "{folder}" | grep -c '^sbatch-')"
echo {answer}
"""
SCONTROL = """\
#!/bin/bash
echo "$@" >> "{folder}/scontrol"
exit {code}
"""
# Writes its arguments down, then ends at once or waits for SIGUSR1, upon which it ends with 75.
PROGRAM = """\
#!/bin/bash
printf '%s\\0' "$@" >> "{folder}/program"
if [ -n "{waits}" ]; then
  trap 'exit 75' USR1
  touch "{folder}/ready"
  while true; do sleep 0.01; done
fi
exit {code}
"""


class FakeSlurm:
    """Folder of stand-ins, which is put before all else on the PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._programs = folder / "bin"
        self._programs.mkdir(parents=True)
        monkeypatch.setenv("PATH", f"{self._programs}{os.pathsep}{os.environ['PATH']}")
        self.program = self._programs / "program"
        self.answer(f"$((100 + $(ls {folder} | grep -c '^sbatch-')))")
        self.set_scontrol()
        self.set_program()

    def answer(self, text: str) -> None:
        """Have sbatch print this (bash), such as a job's id, or do it, such as ``; exit 1``."""
        self._write("sbatch", SBATCH.format(folder=self.folder, answer=text))

    def set_scontrol(self, code: int = 0) -> None:
        self._write("scontrol", SCONTROL.format(folder=self.folder, code=code))

    def set_program(self, code: int | str = 0, *, waits: bool = False) -> None:
        self._write("program", PROGRAM.format(folder=self.folder, code=code, waits="yes" * waits))

    @property
    def submissions(self) -> list[list[str]]:
        """The arguments of each call of sbatch."""
        return [_words(path) for path in sorted(self.folder.glob("sbatch-*"))]

    @property
    def requeued(self) -> list[str]:
        """The calls of scontrol."""
        path = self.folder / "scontrol"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def words(self) -> list[str]:
        """All words that the program was called with."""
        path = self.folder / "program"
        return _words(path) if path.exists() else []

    def run_task(self, script: Path, number: int = 1, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a script as Slurm would run a job of its array."""
        process = self.begin_task(script, number, **environment)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess([str(script)], process.returncode, stdout, stderr)

    def begin_task(self, script: Path, number: int = 1, **environment: str) -> subprocess.Popen[str]:
        job = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(number), **environment}
        command = ["bash", str(script)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **job})

    def signalled(self, script: Path, number: signal.Signals) -> int:
        """Run a script whose program waits, send the script alone a signal, and return its exit code."""
        task = self.begin_task(script)
        _wait_for(lambda: (self.folder / "ready").exists())
        task.send_signal(number)
        task.communicate()
        return task.returncode

    def _write(self, name: str, text: str) -> None:
        path = self._programs / name
        path.write_text(text)
        path.chmod(0o755)


def _words(path: Path) -> list[str]:
    return os.fsdecode(path.read_bytes()).removesuffix("\0").split("\0")


def _wait_for(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)
