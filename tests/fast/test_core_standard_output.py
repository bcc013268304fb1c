"""Stdout is diverted for Python, C and children, and restored exactly."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from robench.core.standard_output import StdoutDiverted


def ended(tmp_path: Path, body: str, redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script in which ``diverted`` is the context, its streams as a shell redirects them."""
    script = tmp_path / "script.py"
    head = (
        "import ctypes, os, subprocess, sys\nfrom robench.core.standard_output import *\ndiverted = StdoutDiverted()\n"
    )
    script.write_text(head + body)
    command = f'"{sys.executable}" "{script}" {redirection}'
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}
    )


EVERY_WAY = """
early = sys.stdout
early.write('before;')
with diverted:
    print('python')
    early.write('held back')
    sys.__stdout__.write('also held back')
    sys.stdout.buffer.write(b'bytes')
    os.write(1, b'descriptor')
    ctypes.CDLL(None).printf(b'in C')
    subprocess.run(['echo', 'child'])
print('after')
assert sys.stdout is early
"""


def test_whatever_is_printed_meanwhile_goes_to_stderr(tmp_path: Path) -> None:
    run = ended(tmp_path, EVERY_WAY)
    assert run.stdout == "before;after\n"
    for text in ("python", "held back", "also held back", "bytes", "descriptor", "in C", "child"):
        assert text in run.stderr


def test_a_closed_stdout_stays_closed(tmp_path: Path) -> None:
    body = (
        "assert sys.stdout is None\n"
        "with diverted:\n    print('x'); os.write(1, b'y')\n"
        "assert sys.stdout is None\n"
        "try:\n    os.fstat(1)\nexcept OSError:\n    sys.exit(7)\n"
    )
    run = ended(tmp_path, body, ">&-")
    assert run.returncode == 7, run.stderr
    assert run.stderr == "x\ny"


def test_a_file_that_got_the_number_of_a_closed_stdout_is_not_written_to(tmp_path: Path) -> None:
    body = (
        "file = open('mine', 'w')\nassert file.fileno() == 1\nwith diverted:\n    os.write(1, b'x')\nfile.write('z')\n"
    )
    run = ended(tmp_path, f"os.chdir({str(tmp_path)!r})\n{body}", ">&-")
    assert (run.returncode, run.stderr, (tmp_path / "mine").read_text()) == (0, "x", "z")


def test_with_a_closed_stderr_it_goes_nowhere(tmp_path: Path) -> None:
    run = ended(tmp_path, "with diverted:\n    print('x')\n    os.write(1, b'y')\nprint('after')", "2>&-")
    assert (run.returncode, run.stdout) == (0, "after\n")


@pytest.mark.parametrize(
    "ruin",
    [
        "os.close(1)",
        "os.close(2)",
        "sys.stdout.close()",
        "sys.stderr.close()",
        "sys.stdout = None",
        "os.closerange(1, 3)",
    ],
)
def test_streams_come_back_whatever_was_done_to_them(tmp_path: Path, ruin: str) -> None:
    body = f"with diverted:\n    {ruin}\nprint('after')\nprint('told', file=sys.stderr)\nos.write(1, b'end')\n"
    for redirection in ("", "-u"):
        run = ended(tmp_path, body if not redirection else f"sys.stdout.reconfigure(write_through=True)\n{body}")
        assert (run.returncode, run.stdout.replace("\n", ""), run.stderr) in [
            (0, "afterend", "told\n"),
            (0, "endafter", "told\n"),
        ]


def test_nested_contexts_restore_at_the_end_of_the_first_also_after_errors(capfd: pytest.CaptureFixture[str]) -> None:
    stream = sys.stdout
    with StdoutDiverted():
        with pytest.raises(ZeroDivisionError), StdoutDiverted():
            1 / 0  # noqa: B018
        os.write(1, b"still diverted")
    assert sys.stdout is stream
    os.write(1, b"back")
    assert capfd.readouterr() == ("back", "still diverted")


@pytest.mark.parametrize(
    "ruin",
    [
        "os.closerange(1, 3)",
        "sys.stdout.close(); sys.stderr.close(); os.close(1)",
        "sys.stdout = None",
        "sys.stdout.detach()",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)",
    ],
)
def test_a_worker_which_diverts_for_good_speaks_again_after_a_model_ruined_its_streams(
    tmp_path: Path, ruin: str
) -> None:
    body = (
        f"divert_for_good()\nwith diverted:\n    {ruin}\n"
        "with diverted:\n    print('python')\n    print('error', file=sys.stderr)\n    os.write(1, b'descriptor')\n"
    )
    run = ended(tmp_path, body)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "python\nerror\ndescriptor")


def test_a_stream_of_the_programs_own_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = io.StringIO()
    monkeypatch.setattr(sys, "stdout", mine)
    with StdoutDiverted():
        print("not mine")  # noqa: T201
    print("mine")  # noqa: T201
    assert mine.getvalue() == "mine\n"


def test_no_descriptor_is_left_open() -> None:
    before = [path.name for path in Path("/dev/fd").iterdir()]
    for _ in range(3):
        with StdoutDiverted():
            pass
    assert [path.name for path in Path("/dev/fd").iterdir()] == before


FORKING = """
with diverted:
    if os.fork() == 0:
        print(len(os.listdir('/dev/fd')), file=sys.stderr)
        os._exit(0)
    os.wait()
    print(len(os.listdir('/dev/fd')), file=sys.stderr)
"""


def test_a_forked_child_does_not_hold_the_real_streams(tmp_path: Path) -> None:
    of_child, of_parent = map(int, ended(tmp_path, FORKING).stderr.split())
    assert of_child == of_parent - 2


def test_after_all_is_said_functions_registered_before_print_to_stderr(tmp_path: Path) -> None:
    body = "import atexit\natexit.register(print, 'late')\nprint('said')\ndivert_at_exit()\n"
    run = ended(tmp_path, body)
    assert (run.stdout, run.stderr) == ("said\n", "late\n")
