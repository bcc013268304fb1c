"""Files and functions stay short enough to be read."""

import ast
from pathlib import Path

from sources import parsed

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "robench").rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def functions(path: Path) -> list[tuple[str, int]]:
    tree = parsed(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [(f"{path.name}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1) for node in nodes]


def test_no_file_is_over_400_lines() -> None:
    assert {str(path): n for path in SOURCES if (n := len(path.read_text().splitlines())) > 400} == {}


def test_no_function_is_over_60_lines() -> None:
    assert [found for path in SOURCES for found in functions(path) if found[1] > 60] == []


def test_every_module_says_what_it_is() -> None:
    assert [str(path) for path in SOURCES if not ast.get_docstring(parsed(path.read_text()))] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [str(path) for path in SOURCES if path.stem in FORBIDDEN_NAMES] == []
