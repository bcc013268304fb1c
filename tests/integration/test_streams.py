"""Streams that refuse: a full disk, a closed descriptor, a reader that left, an encoding that lacks characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from robench.cli.main import COMMANDS, main
from robench.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable

FULL = Path("/dev/full")
needs_dev_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")

# Every command that prints on stdout without measuring; SUITE is a valid file.
PRINTING: dict[str, list[tuple[str, ...]]] = {
    "report": [("report", "--suite", "digits-adv"), ("report", "--suite", "digits-adv", "--json")],
    "compare": [("compare", "--help")],
    "baseline": [("baseline", "--help"), ("baseline", "write", "--help")],
    "check": [("check", "--help")],
    "table": [("table", "rpc:1"), ("table", "rpc:1", "--json")],
    "leaderboard": [
        ("leaderboard", "--suite", "digits-adv"),
        ("leaderboard", "--suite", "digits-adv", "--format", "json"),
    ],
    "export": [("export", "--help")],
    "figure": [("figure", "--help"), ("figure", "seeds", "--help")],
    "rescore": [("rescore", "--help")],
    "list": [("list", "models"), ("list", "models", "--json")],
    "show": [("show", "pgd"), ("show", "pgd", "--json")],
    "validate": [("validate", "SUITE"), ("validate", "SUITE", "--json")],
    "status": [("status",), ("status", "--json")],
    "doctor": [("doctor",), ("doctor", "--json")],
    "data": [("data", "list"), ("data", "list", "--json"), ("data", "verify", "digits"), ("data", "--help")],
    "timm": [("timm", "--help")],
    "train": [("train", "--help")],
    "audit": [("audit", "--help")],
    "run": [("run", "--suite", "digits-adv", "--model", "digits-vit", "--dry-run")],
    "transfer": [("transfer", "--help")],
    "": [("--help",), ("--version",)],
}


def test_every_command_is_visited() -> None:
    assert PRINTING.keys() - {""} == COMMANDS.keys()


@needs_dev_full
@pytest.mark.parametrize("name", PRINTING)
def test_a_full_stdout_is_1_and_one_sentence(
    name: str,
    tmp_path: Path,
    small_suite: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = str(small_suite())
    for arguments in PRINTING[name]:
        monkeypatch.setattr(sys, "argv", ["robench", *(argument.replace("SUITE", suite) for argument in arguments)])
        with FULL.open("w") as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            with pytest.raises(SystemExit) as end:
                main()
        lines = capfd.readouterr().err.splitlines()
        assert end.value.code == 1, lines
        said = "Error: stdout cannot be written (No space left on device)"
        assert [line for line in lines if "rror" in line] == [said], arguments


@needs_dev_full
def test_a_run_whose_table_cannot_be_printed_says_where_its_results_are(
    tmp_path: Path, small_suite: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "r"
    command = ["run", "--suite", str(small_suite()), "--model", "digits-vit", "--results", str(results)]
    monkeypatch.setattr(sys, "argv", ["robench", *command, "--executor", "serial"])
    with FULL.open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        with pytest.raises(SystemExit) as end:
            main()
    last = capfd.readouterr().err.splitlines()[-1]
    assert end.value.code == 1
    assert last.startswith("Error: stdout cannot be written (No space left on device); what was measured is kept in ")
    assert str(results) in last
    assert len(FolderStore(results).keys()) == 9


def test_an_error_of_the_request_weighs_more_than_lost_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["robench", "report", "--suite", "absent"])
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capfd.readouterr().err.count("rror") == 1


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which $R is robench, and $GONE a pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "R": f"{sys.executable} -m robench", "GONE": str(writer), **variables}
    try:
        return subprocess.run(
            ["bash", "-c", line],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=environment,
            pass_fds=[writer],
        )
    finally:
        os.close(writer)


class TestWholeProcesses:
    """What the interpreter itself does to streams, at the start and at the end."""

    @pytest.mark.parametrize(
        ("line", "code", "stderr"),
        [
            ("$R list suites >&-", 1, "Error: stdout cannot be written (it is closed)\n"),
            ("$R list suites >&- <&-", 1, "Error: stdout cannot be written (it is closed)\n"),
            ("$R list suites >&- 2>&-", 1, ""),
            ("$R nope 2>&-", 2, ""),
            ("$R report --suite digits-adv --results absent 2>&-", 0, ""),
            pytest.param("$R list suites >/dev/full 2>&1", 1, "", marks=needs_dev_full),
            pytest.param("$R nope 2>/dev/full", 2, "", marks=needs_dev_full),
            pytest.param("$R report --suite digits-adv --results absent 2>/dev/full", 0, "", marks=needs_dev_full),
            ("$R list suites >&$GONE", 141, ""),
            ("$R --help >&$GONE", 141, ""),
            ("$R list suites >&$GONE 2>&1", 141, ""),
            ("$R nope 2>&$GONE", 2, ""),
        ],
    )
    def test_exit_code_and_stderr(self, line: str, code: int, stderr: str) -> None:
        ended = shell(line)
        assert (ended.returncode, ended.stderr) == (code, stderr)

    @pytest.mark.parametrize(
        "variables",
        [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}],
        ids=str,
    )
    def test_names_that_the_encoding_lacks_are_printed_as_escapes(
        self, tmp_path: Path, small_suite: Callable[..., Path], variables: dict[str, str]
    ) -> None:
        folder = tmp_path / "é字"
        folder.mkdir()
        small_suite().rename(folder / "suite.yaml")
        (folder / "bad.yaml").write_text("- é字")
        for line in (f"$R validate {folder}/suite.yaml", f"$R report --suite {folder}/suite.yaml --results {folder}"):
            ended = shell(line, **variables)
            assert ended.returncode == 0, ended.stderr
            assert "rror" not in ended.stderr
            assert "\\u5b57" in ended.stdout + ended.stderr or "\\udc" in ended.stdout + ended.stderr
        ended = shell(f"$R validate {folder}/bad.yaml; $R validate {folder}/suite.yaml --json", **variables)
        assert ended.returncode == 0
        assert ended.stdout.isascii()

    @needs_dev_full
    @pytest.mark.parametrize(("stderr", "executor"), [("2>/dev/full", "processes"), ("2>&-", "serial")])
    def test_a_run_without_stderr_ends_as_with_it(
        self, tmp_path: Path, small_suite: Callable[..., Path], stderr: str, executor: str
    ) -> None:
        command = f"$R run --suite {small_suite()} --model digits-vit --results {tmp_path}/r --workers 1"
        ended = shell(f"{command} --executor {executor} {stderr}")
        assert ended.returncode == 0
        assert "clean top-1 accuracy" in ended.stdout
        assert len(FolderStore(tmp_path / "r").keys()) == 9

    def test_a_run_whose_reader_left_keeps_its_results(self, tmp_path: Path, small_suite: Callable[..., Path]) -> None:
        command = f"$R run --suite {small_suite()} --model digits-vit --results {tmp_path}/r --executor serial"
        ended = shell(f"{command} >&$GONE")
        assert ended.returncode == 141
        assert f"the reader of stdout is gone; what was measured is kept in {tmp_path}/r" in ended.stderr
        assert len(FolderStore(tmp_path / "r").keys()) == 9
