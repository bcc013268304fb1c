"""Every command and snippet of the pages in docs runs, or says why not; those of the README are in test_docs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from conftest import ROOT
from snippets import quickened, run_snippet, runnable, snippets

import robench
from robench.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Robench

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
WITH_CODE = [name for name, page in PAGES.items() if snippets(page)]
SUITE = "digits-adv"
MODELS = ("digits-vit", "digits-symvit", "digits-rpc-symvit")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that pages share, of the first shard of the demo, so that each is measured once."""
    results: Path = tmp_path_factory.mktemp("kept")
    robench.run(SUITE, list(MODELS), limit=1, audit=False, results=results / "demo")
    (results / "records").symlink_to(results / "demo" / "records")
    return results


@pytest.fixture
def folder(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a reader's, the current one; modules that a test imports from it are forgotten."""
    (tmp_path / "results").symlink_to(kept)
    monkeypatch.chdir(tmp_path)
    # With one core a run needs no worker processes.
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("name", [name for name in WITH_CODE if list(runnable(PAGES[name]))])
def test_the_snippets_of_a_page_run(robench: Robench, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for snippet in runnable(PAGES[name]):
        run_snippet(snippet, robench, monkeypatch)


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_snippet_that_does_not_run_says_why(name: str) -> None:
    for snippet in snippets(PAGES[name]):
        if snippet.mark == "run by":
            test = (ROOT / snippet.why).read_text()
            assert f'"{name}.md"' in test, f"{snippet.why} does not read docs/{name}.md"
        if snippet.mark == "not run":
            assert len(snippet.why) > 20, f"docs/{name}.md: not run for no reason: {snippet.text}"
            for path in re.findall(r"tests/[\w/]+\.py", snippet.why):
                assert (ROOT / path).exists(), f"docs/{name}.md: {path} is gone"


def commands_not_run() -> list[list[str]]:
    blocks = [each for page in PAGES.values() for each in snippets(page) if each.mark and each.language == "sh"]
    commands = [command for block in blocks for command, _ in block.commands if command[0] == "robench"]
    return [command[: command.index(">")] if ">" in command else command for command in commands]


@pytest.mark.parametrize("command", commands_not_run(), ids=" ".join)
def test_a_command_that_does_not_run_has_options_that_there_are(command: list[str]) -> None:
    called, context = command[1:], click.Context(cli)
    found: click.Command | None = cli
    while isinstance(found, click.Group):
        # Of a group with a default command, options may stand first.
        called = ["tables", *called] if called[0].startswith("-") else called
        found = found.get_command(context, called.pop(0))
    assert found is not None
    found.make_context(found.name, called)


def test_the_tutorial_leads_from_nothing_to_a_table_of_ones_own() -> None:
    files = [each.file for each in snippets(PAGES["tutorial"]) if each.file]
    assert files == [
        *("make_shapes.py", "shapes_net.py", "train_shapes_net.py", "shapes.yaml", "in_memory.py"),
        *("corners.py", "corners_impl.py", "check_corners.py", "my-suite.yaml"),
    ]
    shown = [each for each in snippets(PAGES["tutorial"]) if each.language == "sh"]
    commands = [command for each in shown for command, _ in each.commands]
    run = [command for command in commands if command[:2] == ["robench", "run"]]
    assert ["--registry", "shapes.yaml", "--model", "shapes-net"] in [each[-4:] for each in run]
    assert run[-1][2:] == ["--suite", "my-suite.yaml", "--model", "cifar10-vit", "--data-root", "DATA"]


def test_commands_are_quickened_and_otherwise_as_they_are_shown() -> None:
    assert quickened(["list", "models"]) == ["list", "models"]
    assert quickened(["run", "--suite", "a", "--limit", "100"])[:5] == ["run", "--suite", "a", "--limit", "2"]
    assert quickened(["run", "--smoke"]) == ["run", "--smoke", "--executor", "serial", "--no-audit"]
    assert quickened(["audit", "--model", "a"]) == ["audit", "--model", "a"]


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("```sh\nls\n```\n", [("sh", "", "", "")]),
        ("<!-- not run: it takes a day -->\n```sh\nls\n```\n", [("sh", "not run", "it takes a day", "")]),
        ("<!-- run by tests/x.py -->\n```python\nx\n```\n", [("python", "run by", "tests/x.py", "")]),
        ("<!-- not run: far above -->\n\n```sh\nls\n```\n", [("sh", "", "", "")]),
        ("```python\n# a_file.py\nx = 1\n```\n", [("python", "", "", "a_file.py")]),
        ("```text\nx\n```\n\n```yaml\n# s.yaml\na: 1\n```\n", [("yaml", "", "", "s.yaml")]),
        ("```{toctree}\nx\n```\n", []),
    ],
)
def test_snippets_are_found_with_their_marks(page: str, wanted: list[tuple[str, ...]]) -> None:
    assert [(each.language, each.mark, each.why, each.file) for each in snippets(page)] == wanted


def test_a_command_with_another_end_than_the_page_says_fails(
    robench: Robench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wrong,) = snippets("```sh\nrobench show no-such-thing\n```\n")
    with pytest.raises(AssertionError, match="ended with 2"):
        run_snippet(wrong, robench, monkeypatch)
    (other,) = snippets("```sh\nrm -rf results\n```\n")
    with pytest.raises(AssertionError, match="mark the block as not run"):
        run_snippet(other, robench, monkeypatch)
    (yaml,) = snippets("```yaml\nanything: 1\n```\n")
    with pytest.raises(AssertionError, match="mark this block as not run"):
        run_snippet(yaml, robench, monkeypatch)


# The suites of a page's tables, each with the dataset that it is given there.
SHOWN = {
    "tutorial": {"smoke": "digits", "pgd-standard": "digits", "cifar10-adv": None, "my-suite.yaml": None},
    "reading-tables": {"digits-adv": None},
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_tables_of_a_page_have_the_rows_of_their_suites(folder: Path, name: str) -> None:
    for snippet in snippets(PAGES[name]):
        if snippet.file:
            (folder / snippet.file).write_text(snippet.text)
    shown = re.findall(r"```text\n(model +\S.*?)```", PAGES[name], re.DOTALL)
    for table, (suite, dataset) in zip(shown, SHOWN[name].items(), strict=True):
        loaded = robench.load_suite(suite, dataset=dataset, registry=["shapes.yaml"] if "shapes" in PAGES[name] else [])
        columns = [column.label for column in loaded.columns]
        rows = [re.split(r" {2,}", line)[0] for line in table.split("\n\n")[0].splitlines()[2:]]
        assert rows.pop() == "flags"
        assert [row for row in rows if row not in columns] == []
        # A page may leave rows out, but says so.
        assert set(rows) == set(columns) or "rows are left out" in PAGES[name]
