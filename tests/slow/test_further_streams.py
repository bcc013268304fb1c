"""Streams that refuse: the commands and cases beyond those of tests/integration/test_streams.py."""

from collections.abc import Callable
from pathlib import Path

import pytest
from shells import needs_dev_full, shell
from test_streams import PRINTING, test_a_full_stdout_is_1_and_one_sentence

from robench.store import FolderStore

__all__ = ["test_a_full_stdout_is_1_and_one_sentence"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "printing" in metafunc.fixturenames:
        metafunc.parametrize("printing", PRINTING)


class TestWholeProcesses:
    """What the interpreter itself does to streams, at the start and at the end."""

    @pytest.mark.parametrize(
        ("line", "code", "stderr"),
        [
            ("$R list suites >&- <&-", 1, "Error: stdout cannot be written (it is closed)\n"),
            ("$R list suites >&- 2>&-", 1, ""),
            ("$R report --suite digits-adv --results absent 2>&-", 1, ""),
            pytest.param("$R nope 2>/dev/full", 2, "", marks=needs_dev_full),
            pytest.param("$R report --suite digits-adv --results absent 2>/dev/full", 1, "", marks=needs_dev_full),
            ("$R list suites >&$GONE", 141, ""),
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
        # Without results a report is one sentence and exit code 1.
        report = f"$R report --suite {folder}/suite.yaml --results {folder}"
        for line, code in ((f"$R validate {folder}/suite.yaml", 0), (report, 1)):
            ended = shell(line, **variables)
            assert ended.returncode == code, ended.stderr
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
