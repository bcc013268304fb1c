"""Streams that refuse: a full disk, a closed descriptor, a reader that left, an encoding that lacks characters."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from shells import FULL, needs_dev_full, shell

from robench.cli.main import COMMANDS, main
from robench.store import FolderStore

MEASURED = ("--suite", "attackbench-cifar10", "--results", str(ROOT / "reports" / "strength.tar.xz"))
# Every command that prints on stdout without measuring; SUITE is a valid file.
PRINTING: dict[str, list[tuple[str, ...]]] = {
    # Without results it prints JSON alone.
    "report": [("report", "--suite", "digits-adv", "--json")],
    "compare": [("compare", "--help")],
    "baseline": [("baseline", "--help"), ("baseline", "write", "--help")],
    "check": [("check", "--help")],
    "table": [("table", "rpc:1"), ("table", "rpc:1", "--json")],
    "reproduce": [("reproduce", "rpc:1", "--dry-run"), ("reproduce", "rpc:1", "--dry-run", "--json")],
    "card": [("card", "cifar10-vit", *MEASURED)],
    "view": [("view", "--help")],
    "leaderboard": [("leaderboard", *MEASURED), ("leaderboard", *MEASURED, "--format", "json")],
    "export": [("export", "--help"), ("export", "images", "--help")],
    "explain": [("explain", "--help")],
    "analyse": [("analyse", "--help")],
    "figure": [("figure", "--help"), ("figure", "seeds", "--help")],
    "rescore": [("rescore", "--help")],
    "list": [("list", "models"), ("list", "models", "--json")],
    "show": [("show", "pgd"), ("show", "pgd", "--json")],
    "validate": [("validate", "SUITE"), ("validate", "SUITE", "--json")],
    "schema": [("schema", "suite"), ("schema", "registry")],
    "status": [("status", "--json")],
    "store": [
        ("store", "verify", "--help"),
        ("store", "merge", "--help"),
        ("store", "gc", "--help"),
        ("store", "compact", "--help"),
    ],
    "doctor": [("doctor",), ("doctor", "--json")],
    "data": [("data", "list"), ("data", "list", "--json"), ("data", "verify", "digits"), ("data", "--help")],
    "backends": [("backends", "list"), ("backends", "list", "--json"), ("backends", "install", "--help")],
    "import": [("import", "--help")],
    "timm": [("timm", "--help")],
    "train": [("train", "--help")],
    "new": [("new", "attack", "first-walk"), ("new", "attack", "second-walk", "--json")],
    "audit": [("audit", "--help")],
    "cost": [("cost", "digits-vit", "--counts-only"), ("cost", "digits-vit", "--counts-only", "--json")],
    "run": [("run", "--suite", "digits-adv", "--model", "digits-vit", "--dry-run")],
    "strength": [("strength", "--help")],
    "transfer": [("transfer", "--help")],
    "submit": [("submit", "--suite", "digits-adv", "--model", "digits-vit", "--jobs", "2", "--dry-run")],
    "": [("--help",), ("--version",)],
}


def test_every_command_is_visited() -> None:
    assert PRINTING.keys() - {""} == COMMANDS.keys()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Commands that print tables, documents, files and help; ``tests/slow`` has the others."""
    if "printing" in metafunc.fixturenames:
        metafunc.parametrize("printing", ["report", "list", "schema", "new", ""])


@needs_dev_full
def test_a_full_stdout_is_1_and_one_sentence(
    printing: str,
    tmp_path: Path,
    small_suite: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = str(small_suite())
    for arguments in PRINTING[printing]:
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


class TestWholeProcesses:
    """What the interpreter itself does to streams, at the start and at the end."""

    @pytest.mark.parametrize(
        ("line", "code", "stderr"),
        [
            ("$R list suites >&-", 1, "Error: stdout cannot be written (it is closed)\n"),
            ("$R nope 2>&-", 2, ""),
            pytest.param("$R list suites >/dev/full 2>&1", 1, "", marks=needs_dev_full),
            ("$R --help >&$GONE", 141, ""),
        ],
    )
    def test_exit_code_and_stderr(self, line: str, code: int, stderr: str) -> None:
        ended = shell(line)
        assert (ended.returncode, ended.stderr) == (code, stderr)

    def test_names_that_the_encoding_lacks_are_printed_as_escapes(
        self, tmp_path: Path, small_suite: Callable[..., Path]
    ) -> None:
        folder = tmp_path / "é字"
        folder.mkdir()
        small_suite().rename(folder / "suite.yaml")
        ended = shell(f"$R validate {folder}/suite.yaml", PYTHONIOENCODING="ascii")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "\\u5b57" in ended.stdout
