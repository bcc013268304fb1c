"""Writes docs/modules.md: each module of robench with the first sentence of its docstring (``make generated``).

A test holds the page and the docstrings together. Sources are parsed and not imported.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "modules.md"
HEADER = """\
# Modules

Written by `make generated` from the docstrings; edit those. Packages come from the lowest layer to the highest
([architecture.md](architecture.md)): a module imports only from packages above its own in this list, or from its own.
"""
# From the lowest layer to the highest; the last has the modules beside the packages.
PACKAGES = (
    *("core", "declarations", "domains", "tasks", "attention", "attacks", "corruptions"),
    *("models", "datasets", "perturbations", "metrics", "store", "evaluation", "training", "costs", "analyses"),
    *("declare", "scheduling", "executors", "reports", "comparison", "exports"),
    *("papers", "leaderboard", "runs", "reproduction", "figures"),
    *("cli", "api", "testing", ""),
)


def page(package: Path = ROOT / "robench") -> str:
    """Return the page of the modules below ``package``."""
    sections = [_section(package / name, name) for name in PACKAGES]
    return "\n".join([HEADER, *sections])


def _section(folder: Path, name: str) -> str:
    paths = sorted(folder.glob("*.py") if not name else folder.rglob("*.py"))
    modules = [path for path in paths if path.stem != "__init__" or path.parent != folder or not name]
    about = f"\n{first_sentence(folder / '__init__.py')}\n" if name else ""
    rows = [f"| `{_name(path, folder)}` | {first_sentence(path)} |" for path in modules]
    title = f"robench.{name}" if name else "robench"
    return "\n".join([f"## {title}", about, "| module | |", "|---|---|", *rows, ""])


def _name(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__" or len(parts) == 1)


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring on one line.

    Raises:
        ValueError: the module has no docstring.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if not docstring:
        raise ValueError(f"{path} has no docstring; say in a sentence what the module is")
    first = " ".join(docstring.split("\n\n")[0].split())
    found = re.match(r"(.*?[.])(\s|$)(?![a-z])", first)
    sentence = found.group(1) if found else first
    return sentence.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
