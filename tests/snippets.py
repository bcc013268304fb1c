"""Code on pages of documentation: what a reader would type, file or run, as tests find and run it.

A block of ``sh``, ``python``, ``yaml`` or ``toml`` is run, unless a comment above it says why not (``<!-- not run:
reason -->``) or which test does (``<!-- run by tests/... -->``). A block that begins with a comment that is a file name
is that file; other blocks of Python run as they are; commands run one by one. A command whose comment begins with
``ends with 1`` ends so.
"""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from conftest import Robench

LANGUAGES = ("sh", "python", "yaml", "toml")
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run|run by):? (?P<why>[^\n]+) -->\n)?```(?P<language>[\w{}-]+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"^# (?P<file>[\w.-]+\.(?:py|yaml|toml))\n")
# Commands that read results, of which tests have the first examples alone.
READERS = ("compare", "baseline", "explain", "figure", "report")
SUITE = {"name": "of-a-page", "version": 1, "seed": 0, "batch_size": 1, "metrics": ["top1_accuracy"]}


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """Block of code.

    Attributes:
        mark: ``not run`` or ``run by``, with ``why`` or the test; empty if it is to be run.
        file: name of the file that it is; empty for none.
    """

    language: str
    text: str
    mark: str
    why: str
    file: str

    @property
    def commands(self) -> list[tuple[list[str], int]]:
        """The commands of a shell, each with the code that it ends with."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return [(shlex.split(line, comments=True), int("# ends with 1" in line)) for line in lines]


def snippets(page: str) -> list[Snippet]:
    """Return the blocks of a page in languages that run, in their order."""
    found = []
    for block in BLOCK.finditer(page):
        if block["language"] in LANGUAGES:
            named = FILE.match(block["text"])
            mark, why = block["mark"] or "", block["why"] or ""
            file = named["file"] if named else ""
            found.append(Snippet(language=block["language"], text=block["text"], mark=mark, why=why, file=file))
    return found


def quickened(options: list[str]) -> list[str]:
    """Return a command of robench with what makes it short: few examples, no audit, no processes."""
    options = list(options)
    if options[0] == "run":
        options += ["--executor", "serial"]
        # The page's `robench audit` runs an audit.
        options += [] if "--no-audit" in options else ["--no-audit"]
        options += [] if {"--limit", "--smoke"} & set(options) else ["--limit", "1"]
    if options[0] == "transfer":
        options += ["--executor", "serial"]
    if options[0] in READERS and "--limit" not in options:
        options += ["--limit", "1"]
    if "--limit" in options:
        options[options.index("--limit") + 1] = "2"
    return options


def run_snippet(snippet: Snippet, robench: Robench, monkeypatch: pytest.MonkeyPatch) -> None:
    """File or run a snippet in the current folder; an assertion fails if it does not end as the page says."""
    if snippet.file:
        Path(snippet.file).write_text(snippet.text)
    elif snippet.language == "python":
        exec(snippet.text, {"__name__": "__main__"})
    elif snippet.language == "yaml":
        check_yaml(snippet.text)
    else:
        for command, code in snippet.commands:
            run_command(command, code, robench, monkeypatch)


def run_command(command: list[str], code: int, robench: Robench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run ``robench ...`` or ``python FILE`` in this process, which saves the seconds that importing torch takes."""
    program, *arguments = command
    if program == "python":
        monkeypatch.syspath_prepend(str(Path.cwd()))
        monkeypatch.setattr(sys, "argv", arguments)
        runpy.run_path(arguments[0], run_name="__main__")
        return
    assert program == "robench", f"no program of a page's is {program}: mark the block as not run"
    *arguments, sign, file = arguments if ">" in arguments[-2:] else (*arguments, "", "")
    ended = robench(*quickened(list(arguments)))
    if sign:
        Path(file).write_text(ended.stdout)
    assert ended.code == code, f"{command} ended with {ended.code}: {ended.stderr}"


def check_yaml(text: str) -> None:
    """Read part of a suite, or a registry, as robench does."""
    from robench.declare.registry import read_registry
    from robench.declare.suites import parse_suite

    content = yaml.safe_load(text)
    if "conditions" in content:
        assert parse_suite(SUITE | {"dataset": "sotu-eras"} | content).conditions
    else:
        assert set(content) <= {"checkpoints", "datasets"}, f"mark this block as not run: {text}"
        Path("of-a-page.yaml").write_text(text)
        assert read_registry(Path("of-a-page.yaml"))


def runnable(page: str) -> Iterator[Snippet]:
    """Yield the snippets of a page that are to be run."""
    yield from (snippet for snippet in snippets(page) if not snippet.mark)
