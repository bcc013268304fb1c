"""``robench new``: the files of a working plug-in, to be changed by its author.

Files are made of the templates in ``templates/FAMILY``: in robench's repository, or as a distribution. ``plugin.toml``
of a family lists its files in the repository, the lines to add to other files, and the next steps. A line is added
before the text in ``before``; an import is sorted in. If that text is not found, the line is left to the author. The
budgets of the folders are raised by as much.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from robench.cli.options import json_option, option, path_option
from robench.cli.terminal import out, out_json
from robench.core.errors import UsageError
from robench.core.files import write_whole, writing
from robench.core.plugins import USER_CODE

TEMPLATES = Path(__file__).parent / "templates"
# Templates of all families together.
DISTRIBUTION = "distribution"
FAMILIES = tuple(sorted(path.parent.name for path in TEMPLATES.glob("*/plugin.toml.jinja")))
BUDGETS = "tests/architecture/budgets.toml"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Longer names would not fit into the lines of the templates.
_MOST_LETTERS = 20


@click.command("new")
@click.argument("family", type=click.Choice(FAMILIES))
@click.argument("name")
@option("--draws/--no-draws", default=None, help="Whether a corruption draws random numbers; default: it does.")
@option("--like", metavar="ENTRY", help="Write a registry file too: ENTRY's model with the new attention.")
@option("--in-repository", is_flag=True, help="Write into robench's own checkout; the default inside it.")
@path_option("--output", "DIR", "Write a distribution into DIR; default: robench-NAME.")
@json_option
def command(
    family: str,
    name: str,
    draws: bool | None,
    like: str | None,
    in_repository: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Write the files of a working plug-in: in robench's repository, or as a distribution of its own.

    The new plug-in computes something simple and passes its contract check at once. Change it from there. A format of
    users' files goes into the repository alone.

    \b
    robench new attack my-attack --output my-attack
    robench new attention my-attention --like cifar10-vit
    """  # noqa: D301  # click keeps the lines after a real \b as they are
    if in_repository and output is not None:
        raise UsageError("--in-repository and --output exclude each other: give one of them")
    if draws is not None and family != "corruption":
        raise UsageError(f"--draws and --no-draws are of corruptions, got a plug-in of the family {family}")
    if like is not None and family != "attention":
        raise UsageError(f"--like is of attentions, got a plug-in of the family {family}")
    checkout = None if output is not None else checkout_above(Path.cwd())
    if in_repository and checkout is None:
        # The one that this robench runs from, if it is not installed from a wheel.
        checkout = checkout_above(TEMPLATES)
        if checkout is None:
            raise UsageError("--in-repository needs a checkout of robench: run this in one, or give --output DIR")
    if checkout is not None:
        plugin = plugin_in_repository(family, name, checkout, draws=draws is not False)
    else:
        folder = output or Path.cwd() / f"robench-{name}"
        plugin = plugin_as_distribution(family, name, folder, draws=draws is not False)
    steps = _steps(plugin, checkout is not None) + ([] if like is None else _add_entry(plugin, name, like))
    plugin.write()
    if as_json:
        written, changed = ([str(plugin.root / path) for path in paths] for paths in (plugin.files, plugin.changed))
        facts = {"family": family, "kind": plugin.kind, "written": written, "changed": changed}
        out_json({**facts, "by_hand": plugin.by_hand, "next": steps})
        return 0
    out(*(f"wrote {plugin.root / path}" for path in plugin.files))
    out(*(f"added to {plugin.root / path}" for path in plugin.changed))
    out(*(f"add by hand to {plugin.root / path}: {line}" for path, line in plugin.by_hand))
    out("", "Next:", *(f"- {step}" for step in steps))
    return 0


def _steps(plugin: NewPlugin, in_repository: bool) -> list[str]:
    """Return the next steps of the author."""
    if in_repository:
        chosen = [] if plugin.files.keys() & {*plugin.tests} else ["-k", plugin.kind]
        return [
            f"test it: python -m pytest {shlex.join([*plugin.tests, *chosen])}",
            "change the declaration, the implementation and their docstrings",
            *plugin.steps,
            f"say in the commit's message why {BUDGETS} grows; raise it there if the plug-in becomes longer",
            "make generated, then make test",
        ]
    folder = shlex.quote(str(plugin.root))
    return [
        f"install it: pip install --editable {folder}",
        f"test it: python -m pytest {folder}/tests",
        "change the declaration, the implementation and their docstrings",
        f"name it {plugin.usage}",
    ]


def _add_entry(plugin: NewPlugin, name: str, like: str) -> list[str]:
    """Add a registry file with a model like another, and return the next steps; raises UnknownNameError."""
    from robench.declare import find_checkpoints

    (theirs,) = find_checkpoints([like])
    templates, file = _Templates("attention", name, draws=False), f"{name}.yaml"
    templates.names["like"] = like
    plugin.files[file] = templates.rendered("attention/registry.yaml")
    step = f"train it: robench train {name}-{like} --registry {shlex.quote(str(plugin.root / file))}"
    return [step] if theirs.training else []


@dataclass(kw_only=True)
class NewPlugin:
    """Files and lines of a new plug-in, before anything is written.

    Attributes:
        kind: name in suites and registry files.
        usage: example of naming it there; ``tests``: files that test it.
        files: contents of new files, by relative path; ``changed``: contents of files to which lines were added.
        by_hand: lines that could not be added, each with its file.
    """

    root: Path
    kind: str
    usage: str
    tests: list[str]
    steps: list[str]
    files: dict[str, str]
    changed: dict[str, str] = field(default_factory=dict)
    by_hand: list[tuple[str, str]] = field(default_factory=list)

    def write(self) -> None:
        """Write all files, or none if one exists already; raises UsageError or StoreUnwritableError."""
        with writing(self.root):
            if existing := [path for path in self.files if (self.root / path).exists()]:
                raise UsageError(
                    f"{self.root / existing[0]} exists, and nothing is overwritten: choose another name or folder"
                )
            for path, text in (self.files | self.changed).items():
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.root / path, text.encode())


def checkout_above(folder: Path) -> Path | None:
    """Return the checkout of robench that contains ``folder``; None without one."""
    parts = ("robench/cli/templates", "tests/contract")
    return next((each for each in (folder, *folder.parents) if all((each / part).is_dir() for part in parts)), None)


def plugin_in_repository(family: str, name: str, root: Path, *, draws: bool = True) -> NewPlugin:
    """Return a plug-in of robench's own, in the checkout at ``root``; raises UsageError if the name is not valid."""
    templates = _Templates(family, name, draws=draws)
    templates.names["inside"] = True
    manifest = templates.manifest()
    templates.names |= {"kind": manifest["kind"], "package": str(Path(next(iter(manifest["files"]))).parent)}
    templates.names["package"] = templates.names["package"].replace("/", ".")
    plugin = NewPlugin(
        root=root,
        kind=manifest["kind"],
        usage=manifest["usage"],
        tests=manifest["tests"],
        steps=manifest["steps"],
        files={path: templates.rendered(f"{family}/{template}") for path, template in manifest["files"].items()},
    )
    for added in manifest["lines"]:
        path = added["file"]
        before = plugin.changed.get(path) or (root / path).read_text()
        after = _with_line(before, added["line"], added.get("before"))
        if after is None:
            plugin.by_hand.append((path, added["line"].strip()))
        else:
            plugin.changed[path] = after
    plugin.changed[BUDGETS] = _with_budgets((root / BUDGETS).read_text(), plugin)
    return plugin


def plugin_as_distribution(family: str, name: str, root: Path, *, draws: bool = True) -> NewPlugin:
    """Return a distribution in the folder ``root`` with one plug-in, an entry point and a test of its contract.

    Raises:
        UsageError: the name is not valid, or the family has no entry points.
    """
    templates = _Templates(family, name, draws=draws)
    manifest = templates.manifest()
    if "member" not in manifest:
        raise UsageError(
            f"a {family} goes into robench's repository: give --in-repository in a clone. Elsewhere, a registry file"
            " takes a dataset of your own code by {kind: python, target: my_module:MY_DATASET}"
        )
    module, package = templates.names["module"], f"robench_{templates.names['module']}"
    templates.names |= {"kind": manifest["kind"], "member": manifest["member"], "package": package}
    templates.names["distribution"] = package.replace("_", "-")
    wanted = {
        "pyproject.toml": f"{DISTRIBUTION}/pyproject.toml",
        f"{package}/__init__.py": f"{DISTRIBUTION}/package.py",
        f"{package}/{module}.py": f"{family}/declaration.py",
        f"tests/test_{module}.py": f"{family}/test.py",
    }
    if (TEMPLATES / family / "implementation.py.jinja").exists():
        wanted[f"{package}/{module}_impl.py"] = f"{family}/implementation.py"
    files = {path: templates.rendered(template) for path, template in wanted.items()} | {f"{package}/py.typed": ""}
    return NewPlugin(root=root, kind=manifest["kind"], usage=manifest["usage"], tests=["tests"], steps=[], files=files)


class _Templates:
    """Templates of one family for a plug-in of one name.

    Attributes:
        names: variables of the templates.
    """

    def __init__(self, family: str, name: str, *, draws: bool) -> None:
        if not _NAME.fullmatch(name) or len(name) > _MOST_LETTERS:
            raise UsageError(
                f"the name must be of at most {_MOST_LETTERS} lower-case letters and digits with hyphens between words,"
                f" such as my-{family}, got {name!r}"
            )
        module = name.replace("-", "_")
        self.names: dict[str, Any] = {
            "family": family,
            "kind": name,
            "words": name.replace("-", " "),
            "module": module,
            "constant": module.upper(),
            "class_name": "".join(word.capitalize() for word in name.split("-")),
            "inside": False,
            "draws": draws,
        }
        if iskeyword(module) or iskeyword(self.names["class_name"]) or name == USER_CODE:
            raise UsageError(f"{name!r} is a word of Python's or robench's own: choose another name")
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
            autoescape=False,
        )
        self._environment.globals["imports"] = self._imports

    def manifest(self) -> dict[str, Any]:
        """Return the values in ``plugin.toml`` of the family; a ``kind`` there replaces the name.

        Any: as in the file.
        """
        family, name = self.names["family"], self.names["kind"]
        path = f"{family}/plugin.toml"
        kind = tomllib.loads(self.rendered(path)).get("kind", name)
        self.names["kind"] = kind
        manifest = {"kind": kind} | tomllib.loads(self.rendered(path))
        if kind in _taken(manifest["catalogues"]):
            raise UsageError(f"there is already a plug-in called {kind!r} ('robench show {kind}'): choose another name")
        return manifest

    def rendered(self, template: str) -> str:
        """Return the text of a template; raises UsageError if a module of it uses the name already."""
        text = self._environment.get_template(f"{template}.jinja").render(self.names)
        if template.endswith(".py") and (twice := _bound_twice(text)):
            raise UsageError(f"the template already uses the name {twice!r}: choose another name")
        return text

    def _imports(self, *statements: str, indent: int = 0) -> str:
        """Return import statements sorted as ruff sorts them, third-party packages first."""
        top = self.names["package"].partition(".")[0]
        own = {each for each in statements if each.split()[1].partition(".")[0] == top}
        groups = [
            sorted(each, key=lambda line: (line.startswith("from "), line.split()[1]))
            for each in (set(statements) - own, own)
        ]
        return "\n\n".join("\n".join(" " * indent + each for each in group) for group in groups if group)


def _taken(catalogues: list[str]) -> set[object]:
    """Return the names of all plug-ins in these catalogues."""
    # Imported here, since only the names of plug-ins need them.
    from robench.cli.list_command import CATALOGUE
    from robench.datasets import DATASET_KINDS

    found: set[object] = {*DATASET_KINDS} if "formats" in catalogues else set()
    return found.union(*({entry["name"] for entry in CATALOGUE[name](())} for name in catalogues if name in CATALOGUE))


def _bound_twice(source: str) -> str | None:
    """Return a name that a module imports or defines more than once; None without one."""
    bound: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            bound.update(alias.asname or alias.name for alias in node.names)
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            bound[statement.name] += 1
        elif isinstance(statement, ast.Assign):
            bound.update(target.id for target in statement.targets if isinstance(target, ast.Name))
    return next((name for name, count in bound.items() if count > 1), None)


def _with_line(text: str, line: str, before: str | None) -> str | None:
    """Return the text with one more line; None if its place is not found."""
    if before is not None:
        head, found, tail = text.partition(before)
        return f"{head}{line}\n{found}{tail}" if found else None
    module, lines = line.split()[1], text.splitlines(keepends=True)
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.module]
    own = [node for node in imports if str(node.module).partition(".")[0] == module.partition(".")[0]]
    if not own:
        return None
    later = [node.lineno - 1 for node in own if str(node.module) > module]
    lines.insert(later[0] if later else own[-1].end_lineno or len(lines), f"{line}\n")
    return "".join(lines)


def _with_budgets(text: str, plugin: NewPlugin) -> str:
    """Return the budgets of folders, raised by the lines and files that a plug-in adds."""
    lines, files = Counter[str](), Counter[str]()
    for path, content in (plugin.files | plugin.changed).items():
        room = "/".join(Path(path).parts[:2])
        before = (plugin.root / path).read_text() if path in plugin.changed else ""
        lines[room] += len(content.splitlines()) - len(before.splitlines())
        files[room] += path in plugin.files
    for section, grown in (("lines", lines), ("files", files)):
        head, mark, tail = text.partition(f"[{section}]\n")
        for room, size in grown.items():
            if found := re.search(rf'^"{room}" = (\d+)$', tail, re.MULTILINE):
                tail = f"{tail[: found.start(1)]}{int(found[1]) + size}{tail[found.end(1) :]}"
        text = head + mark + tail
    return text
