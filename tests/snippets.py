"""Code on pages of documentation: what a reader would type, file or run, as tests check and run it.

``check_page`` runs nothing: commands are parsed with their names resolved, and Python is compiled with its imports
resolved (``make test``). ``run_snippet`` runs (tests/slow).

A block of ``sh``, ``python``, ``yaml`` or ``toml`` is run, unless a comment above it says why not (``<!-- not run:
reason -->``) or which test does (``<!-- run by tests/... -->``). A block that begins with a comment that is a file name
is that file; other blocks of Python run as they are; commands run one by one. A command whose comment begins with
``ends with 1`` ends so.
"""

import ast
import inspect
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from conftest import ROOT, Robench

import robench

LANGUAGES = ("sh", "python", "yaml", "toml")
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run|run by):? (?P<why>[^\n]+) -->\n)?```(?P<language>[\w{}-]+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"^# (?P<file>[\w.-]+\.(?:py|yaml|toml))\n")
# Commands that read results, of which tests have the first examples alone.
READERS = ("compare", "baseline", "explain", "figure", "leaderboard", "report")
WITHOUT_LIMIT = (["figure", "paper"], ["figure", "analysis"])
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
        lines = [line for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]
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


PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
README = (ROOT / "README.md").read_text()


def readme_blocks(language: str) -> list[str]:
    """Return the text of the README's blocks of a language, in their order."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


README_COMMANDS = [
    shlex.split(line, comments=True)
    for block in readme_blocks("sh")
    for line in block.splitlines()
    if line.startswith("robench ")
]
# The first line of each names the file.
README_FILES = {text.splitlines()[0].removeprefix("# "): text for text in readme_blocks("yaml")}


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
    # What is drawn of papers and analyses has examples of its own.
    if options[0] in READERS and "--limit" not in options and options[:2] not in WITHOUT_LIMIT:
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
    # Paths, as a shell expands them.
    arguments = [
        each
        for word in arguments
        for each in (sorted(map(str, Path().glob(word))) if "/" in word and "*" in word else [word])
    ]
    ended = robench(*quickened(arguments))
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


def check_page(page: str, files: Mapping[str, str] | None = None) -> None:
    """Check all code of a page without running it, in the current folder, which gets the page's files.

    Parts that are marked as not run may name models and files that are not there; of them, commands are parsed.

    Args:
        page: text of the page.
        files: files that commands name and the page shows without a name, by name.
    """
    found = snippets(page)
    files = {**(files or {}), **{snippet.file: snippet.text for snippet in found if snippet.file}}
    for name, text in files.items():
        Path(name).write_text(text)
    for snippet in found:
        if snippet.language == "sh":
            for command, _ in snippet.commands:
                check_command(command, files, is_parsed_only=bool(snippet.mark))
        elif snippet.language == "toml":
            assert tomllib.loads(snippet.text)
        elif snippet.language == "python" and snippet.mark != "not run":
            check_python(snippet.text, files)
        elif snippet.language == "yaml" and not snippet.mark and not snippet.file:
            check_yaml(snippet.text)


def check_command(command: list[str], files: Mapping[str, str], *, is_parsed_only: bool = False) -> None:
    """Parse a command, and resolve the names that it is given."""
    program, *arguments = command
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        for target in arguments:
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"the Makefile has no {target}"
    elif program == "source":
        assert arguments == [".venv/bin/activate"], f"no file of the page is {arguments[0]}"
    elif program == "python":
        assert arguments[0] in files, f"{arguments[0]} is no file of the page"
    elif program == "robench":
        context = parsed(arguments)
        if not is_parsed_only:
            check_names(context)
    else:
        assert is_parsed_only, f"no program of a page's is {program}: mark the block as not run"


def parsed(arguments: list[str]) -> click.Context:
    """Return what click makes of a command of robench's; unknown commands, options and values raise."""
    from robench.cli.main import cli

    # Help is shown before anything is missed.
    called = [each for each in arguments[: arguments.index(">") if ">" in arguments else None] if each != "--help"]
    is_help = "--help" in arguments
    context, found = click.Context(cli), cli
    while isinstance(found, click.Group):
        # Of a group with a default command, options may stand first.
        called = ["tables", *called] if called[0].startswith("-") else called
        command = found.get_command(context, called[0])
        assert command is not None, f"robench has no command {called[0]}"
        context, found = click.Context(command, parent=context, info_name=called[0]), command
        called = called[1:]
    return click.Context(found) if is_help else found.make_context(found.name, called)


def check_names(context: click.Context) -> None:
    """Resolve the suites, models, datasets and other names that a command is given; an unknown one raises."""
    from robench.cli.names import models_of_registry
    from robench.declare import find_checkpoints, find_datasets, find_suites, published_tables

    given: dict[str, Any] = context.params
    registries = given.get("registries") or ()
    suites = [*(given.get("suites") or ()), *([given["suite"]] if given.get("suite") else [])]
    for suite in find_suites(tuple(suites), registries, given.get("dataset")):
        conditions = {condition.name for condition in suite.conditions}
        named = given.get("conditions") or ([given["condition"]] if given.get("condition") else [])
        assert conditions.issuperset(named), f"{suite.name} has no condition {named}"
    first = [given[name] for name in ("control", "model") if isinstance(given.get(name), str)]
    # Of ``compare`` alone, ``names`` are models.
    compared = given["names"] if context.command.name == "compare" else ()
    find_checkpoints(models_of_registry([*first, *compared, *(given.get("models") or ())], registries), registries)
    if context.command.name == "train":
        find_checkpoints(given["names"], registries)
    if context.command.name == "table":
        known = {f"{paper}:{number}" for paper, number in published_tables()}
        assert known.issuperset(given["names"]), given["names"]
    if context.command.name in ("verify", "prepare") and "name" in given:
        assert given["name"] in find_datasets(registries), given["name"]
    if context.command.name == "show":
        assert given["name"] in every_name(), given["name"]


@cache
def every_name() -> frozenset[str]:
    """Return all names that ``robench show`` knows."""
    from robench.cli.list_command import CATALOGUE

    return frozenset(str(entry["name"]) for listed in CATALOGUE.values() for entry in listed(()))


def check_python(source: str, files: Mapping[str, str]) -> None:
    """Compile Python, import what it imports, and hold calls of ``robench.f(...)`` against the signature of f."""
    tree = ast.parse(source)
    compile(source, "snippet", "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert f"{alias.name}.py" in files or find_spec(alias.name), f"there is no module {alias.name}"
        if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.py" in files:
            defined = {getattr(each, "name", "") for each in ast.parse(files[f"{node.module}.py"]).body}
            assert defined.issuperset(alias.name for alias in node.names), ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}"), ast.unparse(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "robench":
            assert hasattr(robench, node.attr), ast.unparse(node)
        if isinstance(node, ast.Call) and re.fullmatch(r"robench\.\w+", ast.unparse(node.func)):
            called = getattr(robench, ast.unparse(node.func).removeprefix("robench."))
            inspect.signature(called).bind(*node.args, **{each.arg: each for each in node.keywords if each.arg})


def runnable(page: str) -> Iterator[Snippet]:
    """Yield the snippets of a page that are to be run."""
    yield from (snippet for snippet in snippets(page) if not snippet.mark)
